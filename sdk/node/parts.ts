import { CommandError } from './commandError.js'
import { MAX_FIELD_BYTES, MAX_PARTS, MAX_RESULT_BYTES, NEWEST_VERSION, type CommandResult, type ResultMessage } from './protocol.js'

/** Bytes of the fields of one part. Half of what a field may have, since escaping in JSON can make a text longer. */
const PART_BYTES = MAX_FIELD_BYTES / 2

type Data = Record<string, unknown>

/**
 * The messages that carry a result: one, or several with `partIndex` and `isLast` where it is large. Texts of the top
 * level are cut between characters and joined again by the gateway; anything else travels whole. Throws `internal_error`
 * when the result is larger than the gateway takes.
 */
export const toMessages = (result: CommandResult): ResultMessage[] => {
  const whole: ResultMessage = { ...result, protocolVersion: result.protocolVersion ?? NEWEST_VERSION }
  const data = result.result
  if (data === undefined) return [whole]
  const bytes = Buffer.byteLength(JSON.stringify(data))
  if (bytes <= MAX_FIELD_BYTES) return [whole]
  if (bytes > MAX_RESULT_BYTES) throw tooLarge(bytes)
  const parts = partsOf(data)
  if (parts.length > MAX_PARTS) throw tooLarge(bytes)
  return parts.map((part, partIndex) => ({ ...whole, result: part, partIndex, isLast: partIndex === parts.length - 1 }))
}

const tooLarge = (bytes: number): CommandError =>
  new CommandError('internal_error', `The result has ${bytes} bytes, more than ${MAX_RESULT_BYTES}: ask for less, or write it to a file`)

const partsOf = (data: Data): Data[] => {
  const parts: Data[] = []
  let part: Data = {}
  let room = PART_BYTES
  const close = (): void => {
    parts.push(part)
    part = {}
    room = PART_BYTES
  }
  const add = (name: string, value: unknown, bytes: number): void => {
    const isFull = bytes > room && Object.keys(part).length > 0
    if (isFull || Object.hasOwn(part, name)) close()
    part[name] = value
    room -= bytes
  }
  for (const [name, value] of Object.entries(data)) {
    if (value === undefined) continue
    const pieces = typeof value === 'string' ? piecesOf(value) : [value]
    for (const piece of pieces) add(name, piece, Buffer.byteLength(typeof piece === 'string' ? piece : JSON.stringify(piece)))
  }
  close()
  return parts
}

/** The text in pieces of at most a part's bytes, none of which ends within a character. */
const piecesOf = (text: string): string[] => {
  const bytes = Buffer.from(text)
  if (bytes.length <= PART_BYTES) return [text]
  const pieces: string[] = []
  for (let start = 0; start < bytes.length;) {
    let end = Math.min(start + PART_BYTES, bytes.length)
    // Bytes 10xxxxxx continue a character.
    while (end < bytes.length && ((bytes[end] ?? 0) & 0xc0) === 0x80) end -= 1
    pieces.push(bytes.toString('utf8', start, end))
    start = end
  }
  return pieces
}
