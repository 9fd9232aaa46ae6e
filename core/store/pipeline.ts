import { checkFilter } from './filter.js'
import { isObject, type JsonObject } from './json.js'

const stages = new Set(
  '$match $project $addFields $set $unset $group $sort $limit $skip $count $unwind $replaceRoot $replaceWith $sortByCount $bucket $bucketAuto $sample $facet'.split(
    ' ',
  ),
)
const banned = new Set(['$function', '$accumulator', '$where'])
const maxDepth = 40

/**
 * The aggregation language that both engines share: it reads its own collection only, writes nothing and runs no
 * scripts. Throws a `TypeError` that names what is outside of it.
 */
export const checkPipeline = (pipeline: JsonObject[]): void => {
  if (!Array.isArray(pipeline)) throw new TypeError('An aggregation pipeline is a list of stages')
  for (const stage of pipeline) {
    const [name, ...others] = isObject(stage) ? Object.keys(stage) : []
    if (name === undefined || others.length > 0) throw new TypeError('An aggregation stage is an object with one operator')
    if (!stages.has(name)) throw new TypeError(`${name} is not a stage of the store's aggregations`)
    const operand = stage[name]
    if (name === '$match') checkFilter(operand as JsonObject)
    else if (name === '$facet') for (const branch of Object.values(operand as Record<string, JsonObject[]>)) checkPipeline(branch)
    else checkExpression(operand, 0)
  }
}

const checkExpression = (value: unknown, depth: number): void => {
  if (depth > maxDepth) throw new TypeError(`An aggregation nests at most ${String(maxDepth)} levels`)
  if (Array.isArray(value)) for (const element of value) checkExpression(element, depth + 1)
  else if (isObject(value)) {
    for (const [key, inner] of Object.entries(value)) {
      if (banned.has(key)) throw new TypeError(`${key} is not part of the store's aggregations`)
      checkExpression(inner, depth + 1)
    }
  }
}

/** The filter of the `$match` stages that a pipeline starts with, and the stages after them. */
export const splitMatch = (pipeline: JsonObject[]): { filter: JsonObject; rest: JsonObject[] } => {
  const length = pipeline.findIndex(stage => !('$match' in stage))
  const leading = length === -1 ? pipeline : pipeline.slice(0, length)
  const filters = leading.map(({ $match }) => $match as JsonObject).filter(filter => Object.keys(filter).length > 0)
  const filter = filters.length > 1 ? { $and: filters } : (filters[0] ?? {})
  return { filter, rest: pipeline.slice(leading.length) }
}
