import type { CollectionSpec, Document } from '../collection.js'
import { builtIndexes, type BuiltIndex } from '../indexes.js'
import type { FieldFacts } from './translate.js'

/** A collection as both threads know it: its table, its indexes, and which of the indexed fields ever held an array or object. */
export interface Table extends FieldFacts {
  /** The collection's name. */
  name: string
  /** The table's name, quoted for SQL. */
  sql: string
  indexes: (BuiltIndex & { name: string })[]
  /** The indexed fields. */
  fields: Set<string>
  /** Those of the indexed fields that are not plain scalars in every document. */
  irregular: Set<string>
}

/** What the worker needs to know to make its own `Table`. */
export interface TableDefinition {
  name: string
  indexes: BuiltIndex[]
  irregular: string[]
}

export const defineTable = (name: string, spec: CollectionSpec<Document>): TableDefinition => {
  if (!/^[A-Za-z0-9][A-Za-z0-9._-]{0,100}$/.test(name)) throw new TypeError(`"${name}" is not a collection name`)
  return { name, indexes: builtIndexes(spec), irregular: [] }
}

export const createTable = ({ name, indexes, irregular }: TableDefinition): Table => {
  const fields = new Set(indexes.flatMap(index => Object.keys(index.fields)).filter(field => field !== 'id'))
  const sparse = new Set(indexes.flatMap(({ required }) => required))
  const irregularFields = new Set(irregular)
  return {
    name,
    sql: `"c:${name}"`,
    indexes: indexes.map(index => ({ ...index, name: indexName(name, index) })),
    fields,
    irregular: irregularFields,
    isScalar: path => path === 'id' || (fields.has(path) && !irregularFields.has(path)),
    isSparse: path => sparse.has(path),
  }
}

const indexName = (collection: string, { fields, unique, required }: BuiltIndex): string => {
  const columns = Object.entries(fields).map(([field, direction]) => (direction === 1 ? field : `-${field}`))
  return `${unique ? 'u' : 'i'}:${collection}:${columns.join(',')}${required.length > 0 ? `?${required.join(',')}` : ''}`
}
