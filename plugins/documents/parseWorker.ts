import { readFile } from 'node:fs/promises'
import type { Format } from './formats.js'
import { decodeText } from './decode.js'

export interface ParseTask {
  path: string
  format: Format
  mimeType: string
  maxLength: number
}

export interface Parsed {
  text: string
  title?: string
}

/** Runs in a worker thread: one document's text. A thrown error's message is the document's reason. */
const parse = async ({ path, format, mimeType, maxLength }: ParseTask): Promise<Parsed> => {
  const source = decodeText(await readFile(path), { mimeType, html: format === 'html' })
  const { text, title } = await parsers[format](source)
  return { text: text.slice(0, maxLength), ...(title ? { title: title.slice(0, 300) } : {}) }
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

/** What is used of a page's tree; the gateway's types know no browser. */
interface Element {
  innerHTML: string
  getAttribute(name: string): string | null
  remove(): void
}

interface Page {
  title: string
  body: Element
  querySelectorAll(selector: string): Iterable<Element>
  cloneNode(deep: boolean): Page
}

/** The readable part of a page, as Markdown. */
const parseHtml = async (source: string): Promise<Parsed> => {
  const [{ parseHTML }, { Readability }, { default: Turndown }] = await Promise.all([
    import('linkedom'),
    import('@mozilla/readability'),
    import('turndown'),
  ])
  const read = (html: string): Page => (parseHTML(html) as unknown as { document: Page }).document
  // A fragment has no body of its own, and would be read as an empty page.
  const page = read(/<body[\s>]/i.test(source) ? source : `<!doctype html><html><body>${source}</body></html>`)
  for (const element of page.querySelectorAll('script, style, noscript, template, iframe, object')) element.remove()
  const title = page.title.trim()
  const body = page.body.innerHTML
  const article = new Readability(page.cloneNode(true)).parse()
  const markdown = new Turndown({ headingStyle: 'atx', bulletListMarker: '-', codeBlockStyle: 'fenced' }).addRule('no images', {
    filter: 'img',
    replacement: (_content, node) => (node as unknown as Element).getAttribute('alt') ?? '',
  })
  const content = read(`<!doctype html><html><body>${article?.content ?? body}</body></html>`).body
  return { text: markdown.turndown(content), title: article?.title ?? title }
}

const parsers: Record<Format, (source: string) => Parsed | Promise<Parsed>> = {
  text: asItIs,
  markdown: asItIs,
  csv: parseCsv,
  json: parseJson,
  html: parseHtml,
}
