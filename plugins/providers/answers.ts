import type { GenerateToolCall, GenerateUsage } from '../../sdk/protocol.js'
import type { Step } from '../models/contract.js'

/** The protocol's limits. */
export const MAX_TEXT_LENGTH = 1024 * 1024
const MAX_TOOL_CALLS = 64
const MAX_CALL_ID_LENGTH = 256
const MAX_TOOL_NAME_LENGTH = 64
const MAX_MODELS = 200
const MAX_MODEL_NAME_LENGTH = 128
const MAX_DIMENSION = 4_096
const FLOAT_BYTES = 4
const DEFAULT_MIN_SIMILARITY = 0.3

/** The plugin's answer is not what the protocol says. The message goes on after "it made a mistake:". */
export class BadAnswer extends Error {
  constructor(message: string) {
    super(`it made a mistake: ${message}`)
    this.name = 'BadAnswer'
  }
}

/** What a plugin says is data: its shape and its limits are those of the protocol, or it is refused. `said` came before. */
export const readStep = (answer: unknown, said: string): Step => {
  const { text = '', toolCalls = [], usage } = asRecord(answer, 'its answer is not an object')
  if (typeof text !== 'string') throw new BadAnswer('the text of its answer is not a text')
  if (!Array.isArray(toolCalls)) throw new BadAnswer('its toolCalls are not a list')
  if (toolCalls.length > MAX_TOOL_CALLS) throw new BadAnswer(`it asked for more than ${MAX_TOOL_CALLS} tool calls at once`)
  checkLength(said.length + text.length)
  const whole = said + text
  if (/\p{Surrogate}/u.test(whole)) throw new BadAnswer('its text is not valid Unicode')
  const calls = toolCalls.map(readToolCall)
  if (new Set(calls.map(({ id }) => id)).size < calls.length) throw new BadAnswer('two of its tool calls have the same id')
  return { text: whole, toolCalls: calls, usage: readUsage(usage) }
}

/** Throws when an answer of so many characters is too long. */
export const checkLength = (characters: number): void => {
  if (characters > MAX_TEXT_LENGTH) throw new BadAnswer(`its answer is longer than ${MAX_TEXT_LENGTH} characters`)
}

const readToolCall = (call: unknown): GenerateToolCall => {
  const { id, name, parameters } = asRecord(call, 'a tool call of it is not an object')
  if (!isText(id, MAX_CALL_ID_LENGTH)) throw new BadAnswer(`the id of a tool call is not a text of 1 to ${MAX_CALL_ID_LENGTH} characters`)
  if (!isText(name, MAX_TOOL_NAME_LENGTH))
    throw new BadAnswer(`the name of a tool call is not a text of 1 to ${MAX_TOOL_NAME_LENGTH} characters`)
  return { id, name, parameters: asRecord(parameters, 'the parameters of a tool call are not an object') }
}

const readUsage = (usage: unknown): GenerateUsage => {
  if (usage === undefined || usage === null) return {}
  const { inputTokens, outputTokens } = asRecord(usage, 'its usage is not an object')
  return {
    ...(inputTokens === undefined ? {} : { inputTokens: readCount(inputTokens) }),
    ...(outputTokens === undefined ? {} : { outputTokens: readCount(outputTokens) }),
  }
}

const readCount = (count: unknown): number => {
  if (!Number.isSafeInteger(count) || (count as number) < 0) throw new BadAnswer('its usage does not hold whole numbers')
  return count as number
}

export const readModels = (answer: unknown): string[] => {
  const { models } = asRecord(answer, 'its list of models is not an object')
  if (!Array.isArray(models) || !models.every(model => isText(model, MAX_MODEL_NAME_LENGTH) && !/\s/.test(model)))
    throw new BadAnswer(`its models are not names without white space, of at most ${MAX_MODEL_NAME_LENGTH} characters`)
  if (models.length > MAX_MODELS) throw new BadAnswer(`it lists more than ${MAX_MODELS} models`)
  return [...new Set(models as string[])]
}

/** Vectors as they came: base64 of little-endian 32-bit floats, of one dimension. What they hold is looked at where they are used. */
export interface Vectors {
  vectors: string[]
  dimension: number
  minSimilarity: number
}

export const readVectors = (answer: unknown, count: number): Vectors => {
  const { vectors, minSimilarity = DEFAULT_MIN_SIMILARITY } = asRecord(answer, 'its answer is not an object')
  if (!Array.isArray(vectors) || vectors.length !== count)
    throw new BadAnswer(`it has to answer with one vector for each of ${count} texts`)
  if (typeof minSimilarity !== 'number' || !(minSimilarity >= -1 && minSimilarity <= 1))
    throw new BadAnswer('its minSimilarity is not a number from -1 to 1')
  const dimensions = new Set(vectors.map(dimensionOf))
  const [dimension, ...others] = dimensions
  if (dimension === undefined || others.length > 0) throw new BadAnswer('its vectors are not of one dimension')
  return { vectors: vectors as string[], dimension, minSimilarity }
}

const dimensionOf = (vector: unknown): number => {
  if (typeof vector !== 'string') throw new BadAnswer('a vector of it is not a text')
  const dimension = Buffer.byteLength(vector, 'base64') / FLOAT_BYTES
  if (dimension > MAX_DIMENSION) throw new BadAnswer(`its vectors have more than ${MAX_DIMENSION} dimensions`)
  if (dimension < 1 || !Number.isInteger(dimension) || !/^[A-Za-z0-9+/]+={0,2}$/.test(vector))
    throw new BadAnswer('a vector of it is not base64 of 32-bit floats')
  return dimension
}

const isText = (value: unknown, maxLength: number): value is string =>
  typeof value === 'string' && value !== '' && value.length <= maxLength

const asRecord = (value: unknown, complaint: string): Record<string, unknown> => {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new BadAnswer(complaint)
  return value as Record<string, unknown>
}
