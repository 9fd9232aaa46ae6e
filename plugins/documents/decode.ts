import chardet from 'chardet'
import iconv from 'iconv-lite'

/** What is looked at to tell text from something else, in bytes. */
const SAMPLE = 64 * 1024
/** Control characters that no text needs: more of them than this share of the sample is no text. */
const MAX_CONTROL_SHARE = 0.05

/** The file's text: by its byte order mark, as UTF-16 where it can be nothing else, else as UTF-8, else by what it or the client declares, else by a guess. Throws for what is no text. */
export const decodeText = (bytes: Buffer, { mimeType, html }: { mimeType: string; html: boolean }): string => {
  const marked = byteOrderMark(bytes)
  if (marked) return iconv.decode(bytes, marked)
  const wide = unmarkedUtf16(bytes)
  if (wide) return iconv.decode(bytes, wide)
  if (looksBinary(bytes.subarray(0, SAMPLE))) throw new Error('its content is not text, whatever its name says')
  const declared = /charset=["']?([\w-]+)/i.exec(mimeType)?.[1] ?? (html ? declaredInHtml(bytes) : undefined)
  if (declared !== undefined && !/^utf-?8$/i.test(declared) && iconv.encodingExists(declared)) return iconv.decode(bytes, declared)
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes)
  } catch {
    return iconv.decode(bytes, guessEncoding(bytes.subarray(0, SAMPLE)))
  }
}

/** The likeliest encoding that gives every byte of the sample a character, but for one that its end may have cut. */
const guessEncoding = (sample: Buffer): string =>
  chardet
    .analyse(sample)
    .map(({ name }) => name)
    .find(name => iconv.encodingExists(name) && !iconv.decode(sample, name).slice(0, -2).includes('\ufffd')) ?? 'windows-1252'

/** The longer ones first: UTF-32's begins with UTF-16's. */
const MARKS: [encoding: string, mark: number[]][] = [
  ['utf-32le', [0xff, 0xfe, 0, 0]],
  ['utf-32be', [0, 0, 0xfe, 0xff]],
  ['utf-8', [0xef, 0xbb, 0xbf]],
  ['utf-16le', [0xff, 0xfe]],
  ['utf-16be', [0xfe, 0xff]],
]

const byteOrderMark = (bytes: Buffer): string | undefined => MARKS.find(([, mark]) => mark.every((byte, at) => bytes[at] === byte))?.[0]

/** Of the characters of a text in UTF-16, at least this share is ASCII in any language: spaces, ends of lines, digits, markup. */
const MIN_ASCII_SHARE = 0.01

/**
 * The byte order of UTF-16 without a mark. Such text holds zero bytes, which no other text does; something else that
 * holds them has, read as UTF-16, characters that no text has.
 */
const unmarkedUtf16 = (bytes: Buffer): 'utf-16le' | 'utf-16be' | undefined => {
  const sample = bytes.subarray(0, SAMPLE)
  if (bytes.length % 2 !== 0 || !sample.includes(0)) return undefined
  const little = asciiShare(sample, at => sample.readUInt16LE(at))
  const big = asciiShare(sample, at => sample.readUInt16BE(at))
  if (Math.max(little, big) < MIN_ASCII_SHARE) return undefined
  return little > big ? 'utf-16le' : 'utf-16be'
}

/** The share of ASCII among the UTF-16 units; 0 when one of them is in no text: a control character, half a pair, unassigned for good. */
const asciiShare = ({ length }: Buffer, unitAt: (at: number) => number): number => {
  let ascii = 0
  let isPairOpen = false
  for (let at = 0; at < length; at += 2) {
    const unit = unitAt(at)
    const opens = unit >= 0xd800 && unit < 0xdc00
    const closes = unit >= 0xdc00 && unit < 0xe000
    if (closes !== isPairOpen || isControl(unit) || unit === 0xfffe || unit === 0xffff) return 0
    isPairOpen = opens
    if (unit < 127) ascii += 1
  }
  return (ascii * 2) / length
}

const isControl = (code: number): boolean => code < 9 || (code > 13 && code < 32 && code !== 27) || code === 127

const looksBinary = (sample: Buffer): boolean => {
  let controls = 0
  for (const byte of sample) {
    if (byte === 0) return true
    if (isControl(byte)) controls += 1
  }
  return controls > sample.length * MAX_CONTROL_SHARE
}

/** Where a page says it itself, in its first bytes. */
const declaredInHtml = (bytes: Buffer): string | undefined =>
  /<meta[^>]+charset\s*=\s*["']?\s*([\w-]+)/i.exec(bytes.subarray(0, 2048).toString('latin1'))?.[1]
