import { LRUCache } from 'lru-cache'

/*
 * An index key is a field's value in a form that SQLite orders and compares as MongoDB does:
 * missing and null < numbers < strings < objects < arrays < booleans, each type apart from the others.
 * Objects and arrays share one key each, so a field that ever held one cannot be answered by its keys alone.
 */
export const nullKey = '-9e999'
export const objectKey = `x'01'`
export const arrayKey = `x'02'`
export const trueKey = `x'0301'`
export const falseKey = `x'0300'`
/** Between the last number and the last string. */
export const firstString = `''`
export const firstBlob = `x''`

const plainSegment = /^[A-Za-z_][A-Za-z0-9_-]*$/
const maxPaths = 5000
const expressions = new LRUCache<string, KeyExpression>({ max: maxPaths })

export interface KeyExpression {
  /** The key's SQL; undefined when the path is not made of plain names: such a field is left to the exact filter. */
  key: string | undefined
  /** The SQL of the value's JSON type, null when missing. */
  type: string
  dotted: boolean
}

/** The SQL over the `doc` column that stands for a field path. */
export const keyExpression = (path: string): KeyExpression => {
  const known = expressions.get(path)
  if (known) return known
  const built = build(path)
  expressions.set(path, built)
  return built
}

const build = (path: string): KeyExpression => {
  const segments = path.split('.')
  if (!segments.every(segment => plainSegment.test(segment))) return { key: undefined, type: '', dotted: segments.length > 1 }
  if (path === 'id') return { key: 'id', type: `'text'`, dotted: false }
  const at = (depth: number): string =>
    `'$${segments
      .slice(0, depth)
      .map(segment => `."${segment}"`)
      .join('')}'`
  const json = at(segments.length)
  const type = `json_type(doc,${json})`
  const cases = `WHEN 'true' THEN ${trueKey} WHEN 'false' THEN ${falseKey} WHEN 'array' THEN ${arrayKey} WHEN 'object' THEN ${objectKey}`
  // As in JavaScript every number is a double: an integer beyond 2^53 must compare as one.
  const scalar = `WHEN 'integer' THEN CAST(doc->>${json} AS REAL) ELSE doc->>${json}`
  const value = `ifnull(CASE ${type} ${cases} ${scalar} END,${nullKey})`
  const above = segments.slice(0, -1).map((_, index) => `json_type(doc,${at(index + 1)})`)
  const key = above.length === 0 ? value : `CASE WHEN 'array' IN (${above.join(',')}) THEN ${arrayKey} ELSE ${value} END`
  return { key, type, dotted: above.length > 0 }
}
