import { isCondition } from '../filter.js'
import { isObject, type JsonObject } from '../json.js'
import type { SqlValue } from './driver.js'
import { arrayKey, falseKey, firstBlob, firstString, keyExpression, nullKey, objectKey, trueKey } from './keys.js'

/** What is known of a collection's fields. */
export interface FieldFacts {
  /** Whether the field never held an array or an object in any document: then its key says everything. */
  isScalar(path: string): boolean
  /** Whether a sparse index leaves out documents without the field. */
  isSparse(path: string): boolean
}

/** SQL that holds for every document that the filter matches, and the part of the filter that remains to be tested. */
export interface Translation {
  where: string
  params: SqlValue[]
  /** Undefined: the SQL alone is exact. */
  residual: JsonObject | undefined
}

interface Term {
  sql: string
  params: SqlValue[]
  exact: boolean
}

const always: Term = { sql: '1', params: [], exact: false }
const never: Term = { sql: '0', params: [], exact: true }
/** Above it a list travels as one JSON parameter, so that a statement's text does not depend on its length. */
const maxInlineList = 8

export const translate = (filter: JsonObject, facts: FieldFacts): Translation => {
  const terms: Term[] = []
  const residual: JsonObject = {}
  // Without statistics the planner takes an owner's index for better than a list of ids, and reads all that the owner
  // has. A plus sign keeps it from using an index for the other conditions.
  const namesIds = isListOfIds(filter.id)
  for (const [field, value] of Object.entries(filter)) {
    const term = translateField(field, value, facts)
    if (term.sql !== '1') terms.push(field === 'id' || !namesIds ? term : { ...term, sql: `+(${term.sql})` })
    if (!term.exact) residual[field] = value
  }
  return { ...conjunction(terms), residual: Object.keys(residual).length > 0 ? residual : undefined }
}

const isListOfIds = (condition: unknown): boolean => isCondition(condition) && Array.isArray(condition.$in)

const conjunction = (terms: Term[]): { where: string; params: SqlValue[] } => ({
  where: terms.length === 0 ? '1' : terms.map(({ sql }) => sql).join(' AND '),
  params: terms.flatMap(({ params }) => params),
})

const translateField = (field: string, value: unknown, facts: FieldFacts): Term => {
  if (field === '$nor') return always
  if (field === '$and' || field === '$or') {
    const branches = (value as JsonObject[]).map(branch => translate(branch, facts))
    const exact = branches.every(({ residual }) => !residual)
    if (field === '$or' && branches.some(({ where }) => where === '1')) return { ...always, exact }
    const sql = branches.map(({ where }) => `(${where})`).join(field === '$and' ? ' AND ' : ' OR ')
    return { sql: `(${sql})`, params: branches.flatMap(({ params }) => params), exact }
  }
  return isCondition(value) ? translateCondition(field, value, facts) : among(field, [value], facts)
}

const translateCondition = (field: string, condition: JsonObject, facts: FieldFacts): Term => {
  const { $gt, $gte, $lt, $lte, ...others } = condition
  const terms = Object.entries(others).map(([operator, operand]) => translateOperator(field, operator, operand, facts))
  if ($gt !== undefined || $gte !== undefined || $lt !== undefined || $lte !== undefined) terms.push(range(field, condition, facts))
  const useful = terms.filter(({ sql }) => sql !== '1')
  const { where, params } = conjunction(useful)
  return { sql: where, params, exact: terms.every(({ exact }) => exact) }
}

const translateOperator = (field: string, operator: string, operand: unknown, facts: FieldFacts): Term => {
  if (operator === '$eq') return among(field, [operand], facts)
  if (operator === '$in') return among(field, operand as unknown[], facts)
  if (operator === '$ne') return notAmong(field, [operand], facts)
  if (operator === '$nin') return notAmong(field, operand as unknown[], facts)
  if (operator === '$exists') return exists(field, Boolean(operand))
  return always
}

const unbindable = /[\0\p{Surrogate}]/u

/** SQLite's text ends at a NUL on the way in, and lone surrogates change: such strings are left to the exact filter. */
export const isBindable = (value: unknown): value is string | number =>
  typeof value === 'number' || (typeof value === 'string' && !unbindable.test(value))

const isBindableText = (value: unknown): value is string => typeof value === 'string' && isBindable(value)

/** The key of a value that has one of its own. */
const literalKey = (value: unknown): string | undefined => {
  if (value === null || value === undefined) return nullKey
  if (typeof value === 'boolean') return value ? trueKey : falseKey
  return undefined
}

const among = (field: string, values: unknown[], facts: FieldFacts): Term => {
  const { key } = keyExpression(field)
  if (key === undefined) return always
  if (field === 'id') return list('id', [], values.filter(isBindableText), true)
  if (values.length === 0) return never
  const literals: string[] = []
  const bound: (string | number)[] = []
  const scalar = facts.isScalar(field)
  let exact = scalar
  for (const value of values) {
    const literal = literalKey(value)
    if (literal !== undefined) literals.push(literal)
    else if (isBindable(value)) bound.push(value)
    else if (typeof value === 'string') return always
    else {
      literals.push(isObject(value) ? objectKey : arrayKey)
      exact = false
    }
  }
  if (!scalar) literals.push(arrayKey)
  const term = list(key, literals, bound, exact)
  return facts.isSparse(field) && !literals.includes(nullKey) ? { ...term, sql: `${term.sql} AND ${key}<>${nullKey}` } : term
}

/** An element of a list parameter: every number a double, as in the keys. */
const listed = `CASE type WHEN 'integer' THEN CAST(value AS REAL) ELSE value END`

const list = (key: string, literals: string[], bound: (string | number)[], exact: boolean): Term => {
  const [only, second] = [...literals, ...bound]
  if (only === undefined) return exact ? never : { ...never, exact }
  if (bound.length > maxInlineList) {
    const rest = [...new Set(literals)].map(literal => ` UNION ALL SELECT ${literal}`).join('')
    return { sql: `${key} IN (SELECT ${listed} FROM json_each(?)${rest})`, params: [JSON.stringify(bound)], exact }
  }
  if (second === undefined) return { sql: `${key}=${literals[0] ?? '?'}`, params: bound, exact }
  return { sql: `${key} IN (${[...new Set(literals), ...bound.map(() => '?')].join(',')})`, params: bound, exact }
}

const notAmong = (field: string, values: unknown[], facts: FieldFacts): Term => {
  const { key } = keyExpression(field)
  if (key === undefined) return always
  const literals: string[] = []
  const bound: (string | number)[] = []
  let exact = facts.isScalar(field)
  for (const value of values) {
    const literal = literalKey(value)
    if (literal !== undefined) literals.push(literal)
    else if (isBindable(value)) bound.push(value)
    else exact = false
  }
  if (field === 'id' || bound.length > maxInlineList) return always
  if (literals.length + bound.length === 0) return { ...always, exact }
  const [first] = literals
  if (literals.length === 1 && bound.length === 0) return { sql: `${key}<>${String(first)}`, params: [], exact }
  return { sql: `${key} NOT IN (${[...literals, ...bound.map(() => '?')].join(',')})`, params: bound, exact }
}

const exists = (field: string, wanted: boolean): Term => {
  const { key, type, dotted } = keyExpression(field)
  if (key === undefined) return always
  if (field === 'id') return wanted ? { ...always, exact: true } : never
  const sql = wanted ? `${type} IS NOT NULL` : `(${type} IS NULL AND ${key}=${nullKey})`
  return dotted ? { sql: `(${sql} OR ${key}=${arrayKey})`, params: [], exact: false } : { sql, params: [], exact: true }
}

const range = (field: string, condition: JsonObject, facts: FieldFacts): Term => {
  const { key } = keyExpression(field)
  const bounds = (['$gt', '$gte', '$lt', '$lte'] as const)
    .map(operator => ({ operator, value: condition[operator] }))
    .filter(({ value }) => value !== undefined)
  const types = new Set(bounds.map(({ value }) => typeof value))
  if (key === undefined || types.size !== 1 || !bounds.every(({ value }) => isBindable(value))) return always
  if (field === 'id' && !types.has('string')) return never
  const signs = { $gt: '>', $gte: '>=', $lt: '<', $lte: '<=' }
  const sql = bounds.map(({ operator }) => `${key}${signs[operator]}?`)
  const isText = types.has('string')
  if (!bounds.some(({ operator }) => operator.startsWith('$l'))) sql.push(`${key}<${isText ? firstBlob : firstString}`)
  if (!bounds.some(({ operator }) => operator.startsWith('$g'))) sql.push(isText ? `${key}>=${firstString}` : `${key}>${nullKey}`)
  const params = bounds.map(({ value }) => value as string | number)
  if (field === 'id') return { sql: sql.join(' AND '), params, exact: true }
  if (!facts.isScalar(field)) return { sql: `(${sql.join(' AND ')} OR ${key}=${arrayKey})`, params, exact: false }
  if (facts.isSparse(field)) sql.push(`${key}<>${nullKey}`)
  return { sql: sql.join(' AND '), params, exact: true }
}
