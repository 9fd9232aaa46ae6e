import type { Sort } from './collection.js'
import { isObject, valuesAt, type JsonObject } from './json.js'

/** MongoDB's order of types; missing and null are equal. */
const rank = (value: unknown): number => {
  if (value === undefined || value === null) return 1
  if (typeof value === 'number') return 2
  if (typeof value === 'string') return 3
  if (typeof value === 'boolean') return 6
  return Array.isArray(value) ? 5 : 4
}

const compareScalars = <T extends number | boolean>(a: T, b: T): number => (a < b ? -1 : a > b ? 1 : 0)

/** By code point, as UTF-8 bytes sort: UTF-16 units from the surrogates up need the order of what they stand for. */
const compareStrings = (a: string, b: string): number => {
  if (a === b) return 0
  const length = Math.min(a.length, b.length)
  for (let index = 0; index < length; index++) {
    const x = a.charCodeAt(index)
    const y = b.charCodeAt(index)
    if (x !== y) return x >= 0xd800 && y >= 0xd800 ? weigh(x) - weigh(y) : x - y
  }
  return a.length - b.length
}

const weigh = (unit: number): number => (unit >= 0xe000 ? unit - 0x800 : unit + 0x2000)

/** Two JSON values in MongoDB's order. */
export const compareValues = (a: unknown, b: unknown): number => {
  const byType = rank(a) - rank(b)
  if (byType !== 0) return byType
  if (typeof a === 'number') return compareScalars(a, b as number)
  if (typeof a === 'string') return compareStrings(a, b as string)
  if (typeof a === 'boolean') return compareScalars(a, b as boolean)
  if (Array.isArray(a)) return compareLists(a, b as unknown[])
  if (isObject(a)) return compareLists(Object.entries(a).flat(), Object.entries(b as JsonObject).flat())
  return 0
}

const compareLists = (a: unknown[], b: unknown[]): number => {
  for (const [index, element] of a.entries()) {
    if (index >= b.length) return 1
    const order = compareValues(element, b[index])
    if (order !== 0) return order
  }
  return a.length - b.length
}

/** What a document is sorted by: of an array its smallest element, or its largest when descending; an empty one as missing. */
export const sortKey = (document: JsonObject, path: string, direction: 1 | -1): unknown => {
  const keys = valuesAt(document, path).flatMap((value): unknown[] => (Array.isArray(value) ? value : [value]))
  return keys.reduce((best, key) => (compareValues(key, best) * direction < 0 ? key : best), keys[0])
}

/** Compares documents by a sort. */
export const comparator = (sort: Sort): ((a: JsonObject, b: JsonObject) => number) => {
  const fields = Object.entries(sort)
  return (a, b) => {
    for (const [path, direction] of fields) {
      const order = compareValues(sortKey(a, path, direction), sortKey(b, path, direction)) * direction
      if (order !== 0) return order
    }
    return 0
  }
}
