import { z } from 'zod'
import { invalidRequest } from '../errors.js'
import type { Page } from '../store/collection.js'

const DEFAULT_LIMIT = 50
const MAX_LIMIT = 200

/** The query parameters of every list: `query: z.object({ ...pageQuery, status: ... })`. */
export const pageQuery = {
  limit: z.coerce.number().int().min(1).max(MAX_LIMIT).optional(),
  cursor: z.string().min(1).max(2048).optional(),
}

/** The envelope of every list. */
export const pageOf = <T extends z.ZodType>(item: T) =>
  z.object({ items: z.array(item), nextCursor: z.string().nullable(), hasMore: z.boolean() })

/**
 * A page of a list held in memory, such as channel types or tools, in the order of `keyOf`. The cursor is the last
 * key given out, so entries may come and go between pages. A damaged cursor throws `invalid_request`.
 */
export const pageOfList = <T>(
  entries: readonly T[],
  keyOf: (entry: T) => string,
  { limit = DEFAULT_LIMIT, cursor }: { limit?: number | undefined; cursor?: string | undefined } = {},
): Page<T> => {
  const after = cursor === undefined ? undefined : decode(cursor)
  const sorted = [...entries].sort((a, b) => compare(keyOf(a), keyOf(b)))
  const rest = after === undefined ? sorted : sorted.filter(entry => compare(keyOf(entry), after) > 0)
  const items = rest.slice(0, limit)
  const last = items.at(-1)
  const hasMore = rest.length > items.length
  return { items, hasMore, nextCursor: hasMore && last !== undefined ? encode(keyOf(last)) : null }
}

const compare = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

const encode = (key: string): string => Buffer.from(JSON.stringify({ key })).toString('base64url')

const decode = (cursor: string): string => {
  try {
    const { key } = JSON.parse(Buffer.from(cursor, 'base64url').toString()) as { key?: unknown }
    if (typeof key === 'string' && encode(key) === cursor) return key
  } catch {
    // Not ours: refused below, like any other damage.
  }
  throw invalidRequest('The cursor is damaged or belongs to another list: start again without one')
}
