/** Plain JSON data, as documents, filters and updates are made of. */
export type JsonObject = Record<string, unknown>

export const isObject = (value: unknown): value is JsonObject => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  const prototype: unknown = Object.getPrototypeOf(value)
  return prototype === Object.prototype || prototype === null
}

/** `a`, `a.b`: whether `path` is `field` or lies within it. */
export const isWithin = (path: string, field: string): boolean => path === field || path.startsWith(`${field}.`)

/** What `path` means in `value`, an array on the way standing for each of its elements, as in a MongoDB filter. */
export const valuesAt = (value: unknown, path: string): unknown[] => {
  const dot = path.indexOf('.')
  const field = dot === -1 ? path : path.slice(0, dot)
  if (Array.isArray(value)) {
    if (/^\d+$/.test(field)) {
      const element: unknown = value[Number(field)]
      return dot === -1 ? [element] : valuesAt(element, path.slice(dot + 1))
    }
    return value.filter(isObject).flatMap(element => valuesAt(element, path))
  }
  const next = isObject(value) && Object.hasOwn(value, field) ? value[field] : undefined
  return dot === -1 ? [next] : valuesAt(next, path.slice(dot + 1))
}

/** Whether `path` leads through no array and ends at a string, number, boolean, null or nothing. */
export const isScalarAt = (document: JsonObject, path: string): boolean => {
  let value: unknown = document
  for (const field of path.split('.')) {
    if (Array.isArray(value)) return false
    if (typeof value !== 'object' || value === null) return true
    value = (value as JsonObject)[field]
  }
  return typeof value !== 'object' || value === null
}

const maxIdLength = 512

/** The id, when it is one that both engines can keep: well-formed text without NUL, 1 to 512 characters. Throws otherwise. */
export const checkId = (id: unknown): string => {
  if (typeof id !== 'string' || id === '' || id.length > maxIdLength || /[\0\p{Surrogate}]/u.test(id))
    throw new TypeError(`A document's id is a string of 1 to ${String(maxIdLength)} characters`)
  return id
}
