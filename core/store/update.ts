import type { Update } from './collection.js'
import { checkPath, equalities } from './filter.js'
import { isObject, isWithin, type JsonObject } from './json.js'

const operators = new Set('$set $unset $inc $mul $min $max $push $pull $pullAll $addToSet $pop $rename $setOnInsert'.split(' '))

/**
 * The update language that both engines share: operators over field paths, no two of which may touch the same field;
 * a document's `id` never changes. Throws a `TypeError` that names what is wrong.
 */
export const checkUpdate = (update: Update): void => {
  const paths: string[] = []
  if (Object.keys(update).length === 0) throw new TypeError('An update is made of operators such as $set')
  for (const [operator, fields] of Object.entries(update)) {
    if (!operators.has(operator)) throw new TypeError(`${operator} is not an operator of the store's updates`)
    if (!isObject(fields)) throw new TypeError(`${operator} takes an object of fields`)
    for (const [path, operand] of Object.entries(fields)) {
      paths.push(path)
      if (operator === '$rename') paths.push(String(operand))
      else if (path === 'id' && operator === '$setOnInsert' && typeof operand === 'string') paths.pop()
    }
  }
  paths.forEach((path, index) => {
    checkPath(path)
    if (/(^|\.)\$/.test(path)) throw new TypeError(`"${path}": positional paths are not part of the store's updates`)
    if (isWithin(path, 'id') || isWithin(path, '_id')) throw new TypeError('The id of a document cannot be changed')
    const other = paths.slice(index + 1).find(later => isWithin(later, path) || isWithin(path, later))
    if (other !== undefined) throw new TypeError(`The update changes "${path}" and "${other}" at once`)
  })
}

/** The fields that an update names, the targets of `$rename` too. */
export const updatedPaths = (update: Update): string[] =>
  Object.entries(update).flatMap(([operator, fields]) => [
    ...Object.keys(fields),
    ...(operator === '$rename' ? Object.values(fields).map(String) : []),
  ])

/** The id of the document that an upsert would make. Throws when neither the filter nor `$setOnInsert` says one. */
export const upsertId = (filter: JsonObject, update: Update): string => {
  const ids = [
    ...equalities(filter)
      .filter(([path]) => path === 'id')
      .map(([, id]) => id),
    update.$setOnInsert?.id,
  ].filter(id => id !== undefined)
  const [id] = ids
  if (typeof id !== 'string' || ids.some(other => other !== id))
    throw new TypeError('An upsert needs one id, as an equality in its filter or in $setOnInsert')
  return id
}
