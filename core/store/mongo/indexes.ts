import type { Collection, IndexDescription } from 'mongodb'
import type { Log } from '../../log.js'
import type { CollectionSpec, Document } from '../collection.js'
import { builtIndexes, type BuiltIndex } from '../indexes.js'
import { toSort } from './names.js'
import type { MongoRow } from './collection.js'

/** Every type but null: of what a sparse index holds. */
const present = { $type: ['string', 'number', 'bool', 'object', 'array'] }

export interface NamedIndex extends BuiltIndex {
  name: string
}

export const namedIndexes = (spec: CollectionSpec<Document>): NamedIndex[] =>
  builtIndexes(spec).map(index => ({ ...index, name: indexName(index) }))

const indexName = ({ fields, unique, required }: BuiltIndex): string => {
  const columns = Object.entries(fields).map(([field, direction]) => (direction === 1 ? field : `-${field}`))
  return `${unique ? 'u' : 'i'}:${columns.join(',')}${required.length > 0 ? '?' : ''}`
}

/** MongoDB's error codes: https://www.mongodb.com/docs/manual/reference/error-codes/ */
const namespaceNotFound = 26
const notImplemented = 238

const codeOf = (error: unknown): unknown => (error as { code?: unknown }).code

/** Makes a collection's indexes exist and removes those that are no longer declared. */
export const applyIndexes = async (
  collection: Collection<MongoRow>,
  spec: CollectionSpec<Document>,
  log?: Pick<Log, 'warn'>,
): Promise<void> => {
  const wanted = namedIndexes(spec).flatMap(toMongo)
  const existing = await existingNames(collection)
  const missing = wanted.filter(({ name }) => !existing.includes(name))
  for (const name of existing) if (/^[iu]:/.test(name) && !wanted.some(index => index.name === name)) await collection.dropIndex(name)
  for (const index of missing) await createIndex(collection, index, log)
}

const createIndex = async (
  collection: Collection<MongoRow>,
  { name, key, options }: MongoIndex,
  log?: Pick<Log, 'warn'>,
): Promise<void> => {
  try {
    await collection.createIndexes([{ ...options, key, name }])
  } catch (error) {
    // Some servers that speak MongoDB's protocol have no partial indexes; the collection still works, less strictly.
    if (!options.partialFilterExpression || codeOf(error) !== notImplemented) throw error
    log?.warn(
      `This server has no partial indexes: ${collection.collectionName} can hold several documents with the same ${Object.keys(key).join(', ')}`,
    )
  }
}

const existingNames = async (collection: Collection<MongoRow>): Promise<string[]> => {
  try {
    const indexes = await collection.indexes()
    return indexes.map(({ name }) => name).filter(name => name !== undefined)
  } catch (error) {
    if (codeOf(error) === namespaceNotFound) return []
    throw error
  }
}

interface MongoIndex {
  name: string
  key: Record<string, 1 | -1>
  options: Omit<IndexDescription, 'key'>
}

const toMongo = ({ name, fields, unique, required }: NamedIndex): MongoIndex[] => {
  const key = toSort(fields)
  if (required.length === 0) return [{ name, key, options: unique ? { unique } : {} }]
  const plain: MongoIndex = { name: `${name}i`, key, options: {} }
  if (!unique) return [plain]
  // A query by an equality does not imply the condition of the partial index, so look-ups have an index of their own.
  const partialFilterExpression = Object.fromEntries(required.map(field => [field, present]))
  return [{ name, key, options: { unique, partialFilterExpression } }, plain]
}
