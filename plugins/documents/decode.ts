import chardet from 'chardet'
import iconv from 'iconv-lite'

/** What is looked at to tell text from something else, in bytes. */
const SAMPLE = 64 * 1024
/** Control characters that no text needs: more of them than this share of the sample is no text. */
const MAX_CONTROL_SHARE = 0.05

/** The file's text: by its byte order mark, else as UTF-8, else by what it or the client declares, else by a guess. Throws for what is no text. */
export const decodeText = (bytes: Buffer, { mimeType, html }: { mimeType: string; html: boolean }): string => {
  const marked = byteOrderMark(bytes)
  if (marked) return iconv.decode(bytes, marked)
  if (looksBinary(bytes.subarray(0, SAMPLE))) throw new Error('its content is not text, whatever its name says')
  const declared = /charset=["']?([\w-]+)/i.exec(mimeType)?.[1] ?? (html ? declaredInHtml(bytes) : undefined)
  if (declared !== undefined && !/^utf-?8$/i.test(declared) && iconv.encodingExists(declared)) return iconv.decode(bytes, declared)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    const guess = chardet.detect(bytes.subarray(0, SAMPLE))
    return iconv.decode(bytes, guess !== null && iconv.encodingExists(guess) ? guess : 'windows-1252')
  }
}

const byteOrderMark = (bytes: Buffer): string | undefined => {
  if (bytes.length >= 3 && bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf) return 'utf-8'
  if (bytes.length >= 2 && bytes[0] === 0xff && bytes[1] === 0xfe) return 'utf-16le'
  if (bytes.length >= 2 && bytes[0] === 0xfe && bytes[1] === 0xff) return 'utf-16be'
  return undefined
}

const looksBinary = (sample: Buffer): boolean => {
  let controls = 0
  for (const byte of sample) {
    if (byte === 0) return true
    if (byte < 9 || (byte > 13 && byte < 32 && byte !== 27)) controls += 1
  }
  return controls > sample.length * MAX_CONTROL_SHARE
}

/** Where a page says it itself, in its first bytes. */
const declaredInHtml = (bytes: Buffer): string | undefined =>
  /<meta[^>]+charset\s*=\s*["']?\s*([\w-]+)/i.exec(bytes.subarray(0, 2048).toString('latin1'))?.[1]
