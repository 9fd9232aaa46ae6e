import type { FindOneAndUpdateOptions, Update } from '../collection.js'
import { equalities } from '../filter.js'
import { isScalarAt, valuesAt, type JsonObject } from '../json.js'
import type { Mingo } from './mingo.js'
import { pointOf } from './point.js'
import { search, select, type Statements, type Found, type Search } from './read.js'
import type { Table } from './table.js'

/** A write on its way to the worker. Documents travel as the JSON text that is stored, and so do updates: text is cheap to send. */
export type Write =
  | { kind: 'insert'; documents: { id: string; text: string }[] }
  | { kind: 'update'; text: string }
  | { kind: 'delete'; filter: JsonObject; limit: number }

/** An update, as its text says it. */
export interface UpdateWrite {
  filter: JsonObject
  update: Update
  many: boolean
  upsert: boolean
  options?: FindOneAndUpdateOptions
}

/** How many documents a write touched, and, of a `findOneAndUpdate`, the text of the one that it returns. */
export interface WriteResult {
  count: number
  text?: string | null
}

/** The limit of a write that takes every match. */
export const unlimited = Number.MAX_SAFE_INTEGER

/** Carries out writes on one connection, within a transaction that the caller holds. */
export class Writer {
  /** Needed by every write but an insertion. */
  mingo: Mingo | undefined
  readonly #statements: Statements
  /** Called when a field first holds an array or object. */
  readonly #onIrregular: (table: Table) => void

  constructor(statements: Statements, onIrregular: (table: Table) => void) {
    this.#statements = statements
    this.#onIrregular = onIrregular
  }

  run(table: Table, write: Write): WriteResult {
    if (write.kind === 'insert') return this.#insert(table, write.documents)
    return write.kind === 'delete'
      ? this.#delete(table, write.filter, write.limit)
      : this.#update(table, JSON.parse(write.text) as UpdateWrite)
  }

  recordIrregular(table: Table): void {
    this.#statements.get('UPDATE "meta" SET irregular=? WHERE name=?').run(JSON.stringify([...table.irregular]), table.name)
  }

  #insert(table: Table, documents: { id: string; text: string }[]): WriteResult {
    const statement = this.#statements.get(`INSERT INTO ${table.sql} (id,doc) VALUES (?,?)`)
    for (const { id, text } of documents) {
      this.#note(table, text)
      statement.run(id, text)
    }
    return { count: documents.length }
  }

  #delete(table: Table, filter: JsonObject, limit: number): WriteResult {
    const matching = this.#search(table, filter)
    if (!matching.test && limit === unlimited) {
      const { changes } = this.#statements.get(`DELETE FROM ${table.sql} WHERE ${matching.where}`).run(...matching.params)
      return { count: Number(changes) }
    }
    const found = select(this.#statements, matching, { limit })
    const statement = this.#statements.get(`DELETE FROM ${table.sql} WHERE rowid=?`)
    for (const { rowid } of found) statement.run(rowid)
    return { count: found.length }
  }

  #update(table: Table, { filter, update, many, upsert, options }: UpdateWrite): WriteResult {
    const found =
      this.#point(table, filter) ??
      select(this.#statements, this.#search(table, filter), { sort: options?.sort, limit: many ? unlimited : 1 })
    if (found.length === 0) return upsert ? this.#upsert(table, filter, update, options) : { count: 0, text: null }
    const { $setOnInsert: _, ...changes } = update
    const [first] = found
    const before = options?.returns === 'before' && first ? JSON.stringify(first.document) : undefined
    for (const one of found) this.#change(table, one, changes)
    return options ? { count: 1, text: before ?? JSON.stringify(first?.document) } : { count: found.length }
  }

  /** The document that a filter of an id means, read by that alone; `undefined` for other filters. */
  #point(table: Table, filter: JsonObject): Found[] | undefined {
    const point = pointOf(filter)
    if (!point) return undefined
    const row = this.#statements.get(`SELECT rowid,doc FROM ${table.sql} WHERE id=?`).get(point.id)
    if (!row) return []
    const document = JSON.parse(row.doc as string) as JsonObject
    const isMatch = point.test(document)
    if (isMatch === undefined) return undefined
    return isMatch ? [{ rowid: row.rowid as number, document }] : []
  }

  #change(table: Table, { rowid, document }: Found, changes: Update): void {
    if (Object.keys(changes).length === 0) return
    const { id } = document
    this.#apply(document, changes)
    if (document.id !== id) throw new TypeError('The id of a document cannot be changed')
    const text = JSON.stringify(document)
    this.#note(table, text, document)
    this.#statements.get(`UPDATE ${table.sql} SET doc=? WHERE rowid=?`).run(text, rowid)
  }

  #upsert(table: Table, filter: JsonObject, update: Update, options?: FindOneAndUpdateOptions): WriteResult {
    const document: JsonObject = { id: '' }
    for (const [path, value] of equalities(filter)) this.#apply(document, { $set: { [path]: value } })
    const { $setOnInsert = {}, ...changes } = update
    this.#apply(document, { ...changes, $set: { ...changes.$set, ...$setOnInsert } })
    const text = JSON.stringify(document)
    this.#insert(table, [{ id: document.id as string, text }])
    return { count: 0, text: options?.returns === 'before' ? null : text }
  }

  #apply(document: JsonObject, changes: Update): void {
    if (isOfWholeFields(changes)) {
      Object.assign(document, changes.$set)
      for (const field of Object.keys(changes.$unset ?? {})) Reflect.deleteProperty(document, field)
      return
    }
    for (const [operator, fields] of Object.entries(changes)) checkTargets(document, operator, fields)
    const { $unset = {}, ...others } = changes
    const elements = Object.keys($unset).filter(path => isElement(document, path))
    if (elements.length === 0) this.#loaded().update(document, changes)
    else {
      // As in MongoDB an element that is unset leaves a null, not a shorter list.
      const rest = Object.fromEntries(Object.entries($unset).filter(([path]) => !elements.includes(path)))
      const nulls = Object.fromEntries(elements.map(path => [path, null]))
      this.#loaded().update(document, { ...others, $unset: rest, $set: { ...others.$set, ...nulls } })
    }
  }

  #loaded(): Mingo {
    if (!this.mingo) throw new Error('The update language is not loaded')
    return this.mingo
  }

  #search(table: Table, filter: JsonObject): Search {
    const found = search(table, filter)
    return found.residual ? { ...found, test: this.#loaded().matcher(found.residual) } : found
  }

  /** Notes the indexed fields that hold an array or object from now on. */
  #note(table: Table, text: string, document = JSON.parse(text) as JsonObject): void {
    let grown = false
    for (const field of table.fields) {
      if (table.irregular.has(field) || isScalarAt(document, field)) continue
      table.irregular.add(field)
      grown = true
    }
    if (grown) this.#onIrregular(table)
  }
}

/** Top-level fields set and removed, as most updates do: going through the whole language would cost them several times as much. */
const isOfWholeFields = (changes: Update): boolean => {
  for (const operator in changes) {
    if (operator !== '$set' && operator !== '$unset') return false
    for (const path in changes[operator as `$${string}`]) if (path.includes('.')) return false
  }
  return true
}

/** Whether a path ends at an element of a list. */
const isElement = (document: JsonObject, path: string): boolean => {
  const end = path.lastIndexOf('.')
  return end > 0 && Array.isArray(valuesAt(document, path.slice(0, end))[0])
}

const numeric = new Set(['$inc', '$mul'])
const ofLists = new Set(['$push', '$addToSet', '$pull', '$pullAll', '$pop'])

/** Throws where MongoDB would and mingo silently does nothing: an operator on a field of the wrong type, a path through a scalar. */
const checkTargets = (document: JsonObject, operator: string, fields: JsonObject): void => {
  for (const path of Object.keys(fields)) {
    const [value] = valuesAt(document, path)
    if (numeric.has(operator) && (typeof fields[path] !== 'number' || (value !== undefined && typeof value !== 'number')))
      throw new TypeError(`${operator} needs numbers, but "${path}" is none`)
    if (ofLists.has(operator) && value !== undefined && !Array.isArray(value))
      throw new TypeError(`${operator} needs a list, but "${path}" is none`)
    if (operator === '$unset' || operator === '$pull' || operator === '$pullAll' || operator === '$pop') continue
    let above = path.lastIndexOf('.')
    for (; above > 0; above = path.lastIndexOf('.', above - 1)) {
      const [parent] = valuesAt(document, path.slice(0, above))
      if (parent !== undefined && (typeof parent !== 'object' || parent === null))
        throw new TypeError(`"${path}" cannot be set: "${path.slice(0, above)}" is neither an object nor a list`)
    }
  }
}
