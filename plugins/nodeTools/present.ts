import { GatewayError } from '../../core/errors.js'
import { formatOf } from './format.js'

/** Of one text of a result, as the model gets it, in characters. */
const MAX_TEXT_LENGTH = 12_000
/** Files that one result may bring; what is beyond is left out. */
const MAX_FILES = 4
/** Shorter ones are no files worth keeping. */
const MIN_FILE_LENGTH = 256
const BASE64 = /^[A-Za-z0-9+/]+={0,2}$/

/** Keeps a file of a result where the user finds it. */
export type Keep = (file: { extension: string; mimeType: string; bytes: Buffer }) => Promise<{ id: string; name: string; size: number }>

/**
 * A command's result as a model can read it: files in it (pictures, base64) are kept as documents, and stand in it as a
 * reference; long texts are cut. `truncated` names the fields that the gateway cut, of which no file can be made any more.
 */
export const present = async (
  result: Record<string, unknown>,
  truncated: readonly string[],
  keep: Keep,
): Promise<Record<string, unknown>> => {
  let files = 0
  const show = async (value: unknown, path: string, isEncoded: boolean): Promise<unknown> => {
    if (typeof value === 'string') return showText(value, path, isEncoded)
    if (typeof value !== 'object' || value === null) return value
    if (Array.isArray(value)) return Promise.all(value.map((element, index) => show(element, `${path}.${index}`, false)))
    return showObject(value as Record<string, unknown>, path)
  }
  const showObject = async (object: Record<string, unknown>, path: string): Promise<Record<string, unknown>> => {
    const isEncoded = object.encoding === 'base64'
    const entries = Object.entries(object).map(
      async ([key, value]) => [key, await show(value, path === '' ? key : `${path}.${key}`, isEncoded)] as const,
    )
    return Object.fromEntries(await Promise.all(entries))
  }
  const showText = async (text: string, path: string, isEncoded: boolean): Promise<unknown> => {
    const format = text.length < MIN_FILE_LENGTH ? undefined : formatOf(text, isEncoded && BASE64.test(text))
    if (!format) return text.length <= MAX_TEXT_LENGTH ? text : `${text.slice(0, MAX_TEXT_LENGTH)}… [cut: ${text.length} characters]`
    if (truncated.includes(path)) return `[${format.mimeType}, cut at 1 MiB: ask for less]`
    files += 1
    if (files > MAX_FILES) return `[${format.mimeType}, left out: a result brings ${MAX_FILES} files at most]`
    try {
      const { id, name, size } = await keep({ ...format, bytes: Buffer.from(text, 'base64') })
      return { documentId: id, name, mimeType: format.mimeType, sizeBytes: size, download: `/api/documents/${id}/download` }
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      return `[${format.mimeType}, not kept: ${error.message}]`
    }
  }
  return showObject(result, '')
}
