import { isObject, type JsonObject } from './json.js'

const logical = new Set(['$and', '$or', '$nor'])
const conditions = new Set('$eq $ne $gt $gte $lt $lte $in $nin $exists $not $regex $options $all $size $elemMatch $type $mod'.split(' '))
const maxDepth = 24

/** The filter language that both engines share. Throws a `TypeError` that names what is outside of it. */
export const checkFilter = (filter: JsonObject): void => {
  checkLevel(filter, 0)
}

const checkLevel = (filter: unknown, depth: number): void => {
  if (!isObject(filter)) throw new TypeError('A filter is an object of fields and conditions')
  if (depth > maxDepth) throw new TypeError(`A filter nests at most ${String(maxDepth)} levels`)
  for (const [field, value] of Object.entries(filter)) {
    if (logical.has(field)) {
      if (!Array.isArray(value) || value.length === 0) throw new TypeError(`${field} takes a list of filters that is not empty`)
      for (const branch of value) checkLevel(branch, depth + 1)
    } else if (field.startsWith('$')) throw new TypeError(`${field} is not an operator of the store's filters`)
    else {
      checkPath(field)
      checkCondition(field, value, depth + 1)
    }
  }
}

const checkCondition = (field: string, value: unknown, depth: number): void => {
  if (!isCondition(value)) {
    checkJson(field, value, depth)
    return
  }
  for (const [operator, operand] of Object.entries(value)) {
    if (!conditions.has(operator)) throw new TypeError(`${operator} (on ${field}) is not an operator of the store's filters`)
    if (operator === '$not') checkCondition(field, operand, depth + 1)
    else if (operator === '$elemMatch') {
      if (isCondition(operand)) checkCondition(field, operand, depth + 1)
      else checkLevel(operand, depth + 1)
    } else checkJson(`${field}.${operator}`, operand, depth)
    if (['$in', '$nin', '$all'].includes(operator) && !Array.isArray(operand)) throw new TypeError(`${operator} (on ${field}) takes a list`)
  }
}

/** Whether a field's value is made of operators, not a value to be equal to. */
export const isCondition = (value: unknown): value is JsonObject => {
  if (!isObject(value)) return false
  for (const key in value) return key.startsWith('$')
  return false
}

/** Throws on a path that reaches into an object's prototype or has an empty segment. */
export const checkPath = (path: string): void => {
  for (const segment of path.split('.')) {
    if (segment === '' || segment === '__proto__' || segment === 'constructor' || segment === 'prototype' || segment.includes('\0'))
      throw new TypeError(`"${path}" is not a field path`)
  }
}

/** Throws unless `value` is what JSON can say: a forgotten variable must not become a filter that matches everything. */
const checkJson = (path: string, value: unknown, depth: number): void => {
  if (value === null || typeof value === 'string' || typeof value === 'boolean') return
  if (typeof value === 'number') {
    if (!Number.isFinite(value)) throw new TypeError(`The filter's ${path} is not a finite number`)
  } else if (depth > maxDepth) throw new TypeError(`A filter nests at most ${String(maxDepth)} levels`)
  else if (Array.isArray(value)) for (const element of value) checkJson(path, element, depth + 1)
  else if (isObject(value)) {
    for (const [key, inner] of Object.entries(value)) {
      if (key.startsWith('$')) throw new TypeError(`The filter's ${path} mixes the operator ${key} with plain fields`)
      checkJson(`${path}.${key}`, inner, depth + 1)
    }
  } else throw new TypeError(`The filter's ${path} is ${value === undefined ? 'undefined' : 'not JSON'}`)
}

/** The fields that a matching document is sure to equal, and the values: what an upsert starts its new document with. */
export const equalities = (filter: JsonObject): [path: string, value: unknown][] =>
  Object.entries(filter).flatMap(([field, value]): [string, unknown][] => {
    if (field === '$and') return (value as JsonObject[]).flatMap(equalities)
    if (field.startsWith('$')) return []
    if (!isCondition(value)) return [[field, value]]
    return '$eq' in value ? [[field, value.$eq]] : []
  })

/** Every field that a filter names at its documents' top level, in `$and`, `$or` and `$nor` too. */
export const fieldsOf = (filter: JsonObject): string[] =>
  Object.entries(filter).flatMap(([field, value]) => (logical.has(field) ? (value as JsonObject[]).flatMap(fieldsOf) : [field]))
