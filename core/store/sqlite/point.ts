import { isCondition } from '../filter.js'
import type { JsonObject } from '../json.js'
import { isBindable } from './translate.js'

/** A filter of one id, and of plain values beside it: what a conditional change of one document asks for. */
export interface Point {
  id: string
  /** Whether the document of that id is the filter's; `undefined` where only the whole filter language can say. */
  test: (document: JsonObject) => boolean | undefined
}

type Scalar = string | number | boolean | null

const isScalar = (value: unknown): value is Scalar => value === null || ['string', 'number', 'boolean'].includes(typeof value)

/** `undefined`: the filter is another. */
export const pointOf = (filter: JsonObject): Point | undefined => {
  const { id } = filter
  if (typeof id !== 'string' || !isBindable(id)) return undefined
  const wanted: [field: string, values: readonly Scalar[]][] = []
  for (const field in filter) {
    if (field === 'id') continue
    const values = valuesOf(filter[field])
    if (!values || field.startsWith('$') || field.includes('.')) return undefined
    wanted.push([field, values])
  }
  return { id, test: document => matches(document, wanted) }
}

/** The values that a condition allows, when it is an equality or `$in` of plain ones. */
const valuesOf = (condition: unknown): readonly Scalar[] | undefined => {
  if (isScalar(condition)) return [condition]
  if (!isCondition(condition) || Object.keys(condition).length !== 1) return undefined
  const { $in } = condition
  return Array.isArray($in) && $in.every(isScalar) ? $in : undefined
}

const matches = (document: JsonObject, wanted: [field: string, values: readonly Scalar[]][]): boolean | undefined => {
  for (const [field, values] of wanted) {
    // Missing is null, as in the whole language.
    const stored = document[field] ?? null
    if (!isScalar(stored)) return undefined
    if (!values.includes(stored)) return false
  }
  return true
}
