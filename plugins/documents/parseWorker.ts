import { readFile } from 'node:fs/promises'
import { decodeText } from './decode.js'
import { sniffFormat, type Format } from './formats.js'
import { parseHtml } from './html.js'

export interface ParseTask {
  path: string
  format: Format | 'sniff'
  mimeType: string
  maxLength: number
}

export interface Parsed {
  text: string
  title?: string
  /** The text went on. */
  truncated?: boolean
}

/** What a built-in format found. */
export interface ParsedHere extends Parsed {
  format: Format
}

/** Runs in a worker thread: one document's text. A thrown error's message is the document's reason. */
const parse = async ({ path, format: wanted, mimeType, maxLength }: ParseTask): Promise<ParsedHere> => {
  const source = decodeText(await readFile(path), { mimeType, html: wanted === 'html' })
  const format = wanted === 'sniff' ? sniffFormat(source) : wanted
  const { text, title } = await parsers[format](source)
  return {
    format,
    text: text.slice(0, maxLength),
    ...(text.length > maxLength ? { truncated: true } : {}),
    ...(title ? { title: title.slice(0, 300) } : {}),
  }
}

export default parse

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
