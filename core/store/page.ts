import { createHash } from 'node:crypto'
import { invalidRequest } from '../errors.js'
import type { Page, PageOptions } from './collection.js'
import type { JsonObject } from './json.js'
import { sortKey } from './order.js'

const defaultPageSize = 50
const maxPageSize = 200

/** The place that a cursor names: just after the document with this sort value and id. */
export interface After {
  value: unknown
  id: string
}

export interface PagePlan {
  limit: number
  field: string
  direction: 1 | -1
  after: After | undefined
  /** Of collection, sort and filter: a cursor is good for these alone. */
  fingerprint: string
}

/** What to read for a page. Throws `invalid_request` for a limit out of range and a damaged or foreign cursor. */
export const planPage = (
  collection: string,
  filter: JsonObject,
  { limit = defaultPageSize, cursor, sort = { createdAt: -1 } }: PageOptions,
): PagePlan => {
  if (!Number.isInteger(limit) || limit < 1 || limit > maxPageSize)
    throw invalidRequest(`limit must be a whole number from 1 to ${String(maxPageSize)}`)
  const [entry, ...others] = Object.entries(sort)
  if (!entry || others.length > 0) throw new TypeError('A page is sorted by one field')
  const [field, direction] = entry
  const fingerprint = createHash('sha256')
    .update(JSON.stringify([collection, field, direction, filter]))
    .digest('base64url')
    .slice(0, 16)
  return { limit, field, direction, after: cursor === undefined ? undefined : readCursor(cursor, fingerprint), fingerprint }
}

/** The page of the documents that a plan found, read one beyond its limit to see whether there are more. */
export const makePage = <T>({ limit, field, direction, fingerprint }: PagePlan, documents: (T & JsonObject)[]): Page<T> => {
  const items = documents.slice(0, limit)
  const last = items.at(-1)
  const hasMore = documents.length > limit
  if (!hasMore || !last) return { items, nextCursor: null, hasMore: false }
  const place = [fingerprint, sortKey(last, field, direction) ?? null, last.id]
  return { items, nextCursor: Buffer.from(JSON.stringify(place)).toString('base64url'), hasMore }
}

const readCursor = (cursor: string, expected: string): After => {
  const place = parseCursor(cursor)
  if (!Array.isArray(place) || place.length !== 3) throw invalidRequest('The cursor is damaged: start again without one')
  const [fingerprint, value, id] = place as unknown[]
  if (typeof id !== 'string') throw invalidRequest('The cursor is damaged: start again without one')
  if (fingerprint !== expected) throw invalidRequest('The cursor belongs to another list or filter: start again without one')
  return { value, id }
}

const parseCursor = (cursor: string): unknown => {
  try {
    return JSON.parse(Buffer.from(cursor, 'base64url').toString('utf8'))
  } catch {
    // Not JSON: damaged.
    return undefined
  }
}
