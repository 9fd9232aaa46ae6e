import { LRUCache } from 'lru-cache'
import type { Sort } from '../collection.js'
import type { JsonObject } from '../json.js'
import type { After } from '../page.js'
import { compareValues, comparator, sortKey } from '../order.js'
import type { Database, SqlValue, Statement } from './driver.js'
import { arrayKey, falseKey, keyExpression, nullKey, objectKey, trueKey } from './keys.js'
import type { Test } from './mingo.js'
import type { Table } from './table.js'
import { isBindable, translate, type Translation } from './translate.js'

const maxStatements = 500

/** A connection's prepared statements, by their text. */
export class Statements {
  readonly #db: Database
  readonly #prepared = new LRUCache<string, Statement>({ max: maxStatements })

  constructor(db: Database) {
    this.#db = db
  }

  get(sql: string): Statement {
    const known = this.#prepared.get(sql)
    if (known) return known
    const statement = this.#db.prepare(sql)
    this.#prepared.set(sql, statement)
    return statement
  }
}

export interface Selection {
  sort?: Sort | undefined
  skip?: number | undefined
  limit: number
  after?: After | undefined
}

export interface Found {
  rowid: number
  document: JsonObject
}

/** A filter that is ready to run: `test` is missing while its residual has no matcher yet. */
export interface Search extends Translation {
  table: Table
  test?: Test | undefined
}

export const search = (table: Table, filter: JsonObject): Search => ({ table, ...translate(filter, table) })

const parse = (row: Record<string, unknown>): Found => ({
  rowid: row.rowid as number,
  document: JSON.parse(row.doc as string) as JsonObject,
})

/** The documents of a search in order, at most `limit`; read as far as needed and no further where SQL knows the order. */
export const select = (statements: Statements, { table, where, params, test }: Search, selection: Selection): Found[] => {
  const { sort, skip = 0, limit, after } = selection
  const order = sort && sqlOrder(statements, table, where, params, sort, after)
  if (sort && !order) return selectAndSort(statements, { table, where, params, test }, { ...selection, sort })
  const seek = order?.seek ?? { sql: '', params: [] }
  const rest = test ? '' : ' LIMIT ? OFFSET ?'
  const sql = `SELECT rowid,doc FROM ${table.sql} WHERE ${where}${seek.sql}${order ? ` ORDER BY ${order.by}` : ''}${rest}`
  const rows = statements.get(sql)
  if (!test) return rows.all(...params, ...seek.params, limit, skip).map(parse)
  const found: Found[] = []
  let skipped = 0
  if (limit <= 0) return found
  for (const row of rows.iterate(...params, ...seek.params)) {
    const next = parse(row)
    if (!test(next.document) || skipped++ < skip) continue
    found.push(next)
    if (found.length >= limit) break
  }
  return found
}

interface SqlOrder {
  by: string
  seek: { sql: string; params: SqlValue[] }
}

/** The sort as SQL, or undefined where the keys do not say all: arrays, objects, or a path that is no plain name. */
const sqlOrder = (
  statements: Statements,
  table: Table,
  where: string,
  params: SqlValue[],
  sort: Sort,
  after?: After,
): SqlOrder | undefined => {
  const fields = Object.entries(sort).map(([path, direction]) => ({ path, direction, key: keyExpression(path).key }))
  for (const { path, key } of fields) {
    if (key === undefined) return undefined
    if (table.isScalar(path)) continue
    const sql = `SELECT 1 FROM ${table.sql} WHERE ${where} AND ${key} IN (${objectKey},${arrayKey}) LIMIT 1`
    if (statements.get(sql).get(...params)) return undefined
  }
  const by = fields.map(({ key, direction }) => `${String(key)}${direction === 1 ? '' : ' DESC'}`).join(',')
  const [first] = fields
  if (!after || !first) return { by, seek: { sql: '', params: [] } }
  const seek = sqlSeek(String(first.key), first.direction, after)
  return seek && { by, seek }
}

/** What follows the document `after` in the order of a field and then the id. */
const sqlSeek = (key: string, direction: 1 | -1, { value, id }: After): SqlOrder['seek'] | undefined => {
  const sign = direction === 1 ? '>' : '<'
  if (key === 'id') return { sql: ` AND id${sign}?`, params: [id] }
  const bound = isBindable(value)
  if (!bound && typeof value === 'object' && value !== null) return undefined
  if (!bound && typeof value === 'string') return undefined
  const operand = bound ? '?' : value === true ? trueKey : value === false ? falseKey : nullKey
  const values = bound ? [value] : []
  return { sql: ` AND ${key}${sign}=${operand} AND (${key}${sign}${operand} OR id${sign}?)`, params: [...values, ...values, id] }
}

const selectAndSort = (
  statements: Statements,
  { table, where, params, test }: Omit<Search, 'residual'>,
  selection: Selection & { sort: Sort },
): Found[] => {
  const { sort, skip = 0, limit, after } = selection
  const compare = comparator(sort)
  const found: Found[] = []
  for (const row of statements.get(`SELECT rowid,doc FROM ${table.sql} WHERE ${where}`).iterate(...params)) {
    const next = parse(row)
    if ((!test || test(next.document)) && (!after || follows(next.document, sort, after))) found.push(next)
  }
  return found.sort((a, b) => compare(a.document, b.document)).slice(skip, skip + limit)
}

const follows = (document: JsonObject, sort: Sort, { value, id }: After): boolean => {
  const [[path, direction] = ['id', 1] as const] = Object.entries(sort)
  const order = compareValues(sortKey(document, path, direction), value) * direction
  return order > 0 || (order === 0 && compareValues(document.id, id) * direction > 0)
}

export const count = (statements: Statements, { table, where, params, test }: Search): number => {
  if (!test) return statements.get(`SELECT count(*) AS n FROM ${table.sql} WHERE ${where}`).get(...params)?.n as number
  let matched = 0
  for (const row of statements.get(`SELECT rowid,doc FROM ${table.sql} WHERE ${where}`).iterate(...params))
    if (test(parse(row).document)) matched++
  return matched
}
