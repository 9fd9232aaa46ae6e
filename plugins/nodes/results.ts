import type { CommandError } from './contract.js'
import { COMMAND_ERRORS, type SentError } from './protocol.js'

/** UTF-8 bytes of one text field of a result message; what is longer is cut. Larger results come in parts. */
export const MAX_FIELD_BYTES = 1_048_576
/** Bytes of a whole result, all its parts together. */
export const MAX_RESULT_BYTES = 12 * 1024 * 1024
const MAX_DEPTH = 64
/** Cut fields that are listed. */
const MAX_LISTED = 100

type Data = Record<string, unknown>

/** The result with every text field cut to the limit, and the paths of those that were: `image`, `files.0.data`. */
export const cutFields = (result: Data): { result: Data; truncated: string[] } => {
  // Most results are as they may be: nothing is copied then.
  if (isWithinLimits(result, 0)) return { result, truncated: [] }
  const truncated: string[] = []
  const cut = (value: unknown, path: string, depth: number): unknown => {
    if (typeof value === 'string') {
      if (fits(value)) return value
      if (truncated.length < MAX_LISTED) truncated.push(path)
      return cutText(value)
    }
    if (typeof value !== 'object' || value === null) return value
    // Socket.IO carries bytes as such; results are JSON.
    if (ArrayBuffer.isView(value)) return cut(Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64'), path, depth)
    if (depth >= MAX_DEPTH) return null
    if (Array.isArray(value)) return value.map((element, index) => cut(element, `${path}.${index}`, depth + 1))
    return cutObject(value as Data, path, depth)
  }
  const cutObject = (object: Data, path: string, depth: number): Data =>
    Object.fromEntries(Object.entries(object).map(([key, value]) => [key, cut(value, path === '' ? key : `${path}.${key}`, depth + 1)]))
  return { result: cutObject(result, '', 0), truncated }
}

/** A UTF-16 unit is at most three bytes of UTF-8. */
const fits = (text: string): boolean => text.length * 3 <= MAX_FIELD_BYTES || Buffer.byteLength(text) <= MAX_FIELD_BYTES

const isWithinLimits = (value: unknown, depth: number): boolean => {
  if (typeof value === 'string') return fits(value)
  if (typeof value !== 'object' || value === null) return true
  if (depth >= MAX_DEPTH || ArrayBuffer.isView(value)) return false
  if (Array.isArray(value)) return value.every(element => isWithinLimits(element, depth + 1))
  for (const key in value) if (!isWithinLimits((value as Data)[key], depth + 1)) return false
  return true
}

/** The longest beginning of the text that fits, without half a character at its end. */
const cutText = (text: string): string => {
  const bytes = Buffer.from(text)
  let end = MAX_FIELD_BYTES
  // Bytes 10xxxxxx continue a character.
  while (end > 0 && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
  return bytes.toString('utf8', 0, end)
}

/** The parts, in order, as one result: texts of the same name are joined, of anything else the later part's stands. */
export const joinParts = (parts: readonly Data[]): Data => {
  const joined = new Map<string, unknown>()
  const texts = new Map<string, string[]>()
  for (const part of parts) {
    for (const [key, value] of Object.entries(part)) {
      const before = texts.get(key)
      if (typeof value === 'string' && before) before.push(value)
      else if (typeof value === 'string') texts.set(key, [value])
      else texts.delete(key)
      joined.set(key, value)
    }
  }
  for (const [key, pieces] of texts) joined.set(key, pieces.join(''))
  return Object.fromEntries(joined)
}

/** A node's error with a code of the table; another code becomes `internal_error` and stands in the details. */
export const toCommandError = (sent: SentError | null | undefined): CommandError => {
  if (!sent) return { code: 'internal_error', message: 'The command failed and the node gave no reason' }
  const { code, message, details, retryAfterMs } = sent
  const isKnown = (COMMAND_ERRORS as readonly string[]).includes(code)
  const shown = isKnown ? details : { ...details, code }
  return {
    code: isKnown ? code : 'internal_error',
    message,
    ...(shown === undefined || JSON.stringify(shown).length > MAX_DETAILS_LENGTH ? {} : { details: shown }),
    ...(retryAfterMs === undefined ? {} : { retryAfterMs }),
  }
}

const MAX_DETAILS_LENGTH = 64 * 1024
