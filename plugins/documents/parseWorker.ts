import { readSync } from 'node:fs'
import { open, readFile } from 'node:fs/promises'
import { isDiskFull } from '../../core/files.js'
import { decodeText } from './decode.js'
import { sniffFormat, type Format } from './formats.js'
import { parseHtml } from './html.js'
import { splitText } from './splitText.js'

/** Where a text comes from: a document in a built-in format, or what a plugin answered, as a text or as a file of UTF-8. */
export type TextSource =
  | { kind: 'document'; path: string; format: Format | 'sniff'; mimeType: string }
  | { kind: 'answer'; text: string }
  | { kind: 'answerFile'; fd: number }

export interface ParseTask {
  source: TextSource
  /** The file to make, which is not there yet; its directory is. */
  draft: string
  maxLength: number
}

export interface Parsed {
  text: string
  title?: string
  /** The text went on. */
  truncated?: boolean
}

/** What stays in the worker is the text: it is in the draft, and its searchable passages are here. */
export interface ParsedText {
  /** Of a document. */
  format?: Format
  title?: string
  truncated?: boolean
  passages: string[]
}

/** What became of a task; a failure here is one that the main thread has to tell from a document's own. */
export type ParseAnswer = ParsedText | { failure: 'diskFull' | 'notUnicode'; message: string }

/** Runs in a worker thread: one document's text, cut and written to the draft. A thrown error's message is the document's reason. */
const parse = async ({ source, draft, maxLength }: ParseTask): Promise<ParseAnswer> => {
  const found = await read(source, maxLength)
  if (found === undefined)
    return {
      failure: 'notUnicode',
      message: source.kind === 'answerFile' ? 'its text file is not valid UTF-8' : 'its text is not valid Unicode',
    }
  const text = found.text.slice(0, maxLength)
  try {
    await write(draft, text)
  } catch (error) {
    if (isDiskFull(error)) return { failure: 'diskFull', message: (error as Error).message }
    throw error
  }
  return {
    ...(found.format ? { format: found.format } : {}),
    ...(found.title ? { title: found.title.slice(0, 300) } : {}),
    ...(found.text.length > maxLength ? { truncated: true } : {}),
    passages: splitText(text),
  }
}

export default parse

/** `undefined`: it is no Unicode, though it has to be. */
const read = async (source: TextSource, maxLength: number): Promise<(Parsed & { format?: Format }) | undefined> => {
  if (source.kind === 'document') return readDocument(source)
  if (source.kind === 'answerFile') return readUtf8(source.fd, maxLength)
  return /\p{Surrogate}/u.test(source.text) ? undefined : source
}

const readDocument = async ({
  path,
  format: wanted,
  mimeType,
}: TextSource & { kind: 'document' }): Promise<Parsed & { format: Format }> => {
  const source = decodeText(await readFile(path), { mimeType, html: wanted === 'html' })
  const format = wanted === 'sniff' ? sniffFormat(source) : wanted
  return { ...(await parsers[format](source)), format }
}

const PIECE_BYTES = 256 * 1024

/** No further than what is kept of it: the file may be of any length. The handle stays the main thread's. */
const readUtf8 = (fd: number, maxLength: number): Parsed | undefined => {
  const decoder = new TextDecoder('utf-8', { fatal: true })
  const piece = Buffer.allocUnsafe(PIECE_BYTES)
  let text = ''
  try {
    for (let at = 0, bytes = 1; bytes > 0; at += bytes) {
      bytes = readSync(fd, piece, 0, piece.length, at)
      text += decoder.decode(piece.subarray(0, bytes), { stream: true })
      if (text.length > maxLength) return { text }
    }
    return { text: text + decoder.decode() }
  } catch (error) {
    if (error instanceof TypeError) return undefined
    throw error
  }
}

/** Never in a directory that is gone: the document may have been deleted meanwhile. */
const write = async (draft: string, text: string): Promise<void> => {
  const handle = await open(draft, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

const asItIs = (source: string): Parsed => ({ text: source })

const parseJson = (source: string): Parsed => {
  try {
    JSON.parse(source)
  } catch (error) {
    throw new Error(`it is not valid JSON: ${(error as Error).message.slice(0, 200)}`)
  }
  return { text: source }
}

/** Columns of one row that are kept: a row of a million cells says nothing to anyone. */
const MAX_COLUMNS = 1_000

const parseCsv = async (source: string): Promise<Parsed> => {
  const { parse: parseRows } = await import('csv-parse/sync')
  const firstLine = source.slice(0, source.indexOf('\n') + 1 || undefined)
  const delimiter = [',', ';', '\t', '|'].reduce((best, next) =>
    firstLine.split(next).length > firstLine.split(best).length ? next : best,
  )
  try {
    const rows: string[][] = parseRows(source, {
      delimiter,
      relax_column_count: true,
      relax_quotes: true,
      skip_empty_lines: true,
      bom: true,
    })
    return { text: rows.map(row => row.slice(0, MAX_COLUMNS).join(' | ')).join('\n') }
  } catch (error) {
    throw new Error(`it is not valid CSV: ${(error as Error).message.slice(0, 200)}`)
  }
}

const parsers: Record<Format, (source: string) => Parsed | Promise<Parsed>> = {
  text: asItIs,
  markdown: asItIs,
  csv: parseCsv,
  json: parseJson,
  html: parseHtml,
}
