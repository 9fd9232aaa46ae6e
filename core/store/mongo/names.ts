import type { Sort, Update } from '../collection.js'
import type { JsonObject } from '../json.js'

/*
 * A document's `id` is stored as MongoDB's `_id`.
 */

const logical = new Set(['$and', '$or', '$nor'])

export const toRow = <T extends { id: string }>({ id, ...fields }: T): { _id: string } & JsonObject => ({ _id: id, ...fields })

export const fromRow = <T>({ _id, ...fields }: { _id: string } & JsonObject): T => ({ id: _id, ...fields }) as T

export const toFilter = (filter: JsonObject): JsonObject =>
  Object.fromEntries(
    Object.entries(filter).map(([field, value]) => {
      if (logical.has(field)) return [field, (value as JsonObject[]).map(toFilter)]
      return [field === 'id' ? '_id' : field, value]
    }),
  )

export const toSort = (sort: Sort): Sort =>
  Object.fromEntries(Object.entries(sort).map(([field, direction]) => [field === 'id' ? '_id' : field, direction]))

/** Only `$setOnInsert` may name the id. */
export const toUpdate = ({ $setOnInsert, ...operators }: Update): Update => {
  const used = Object.fromEntries(Object.entries(operators).filter(([, fields]) => Object.keys(fields).length > 0))
  return $setOnInsert && Object.keys($setOnInsert).length > 0 ? { ...used, $setOnInsert: toFilter($setOnInsert) } : used
}
