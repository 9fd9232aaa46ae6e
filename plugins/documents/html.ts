import type { Parsed } from './parseWorker.js'

/** How large a page's tree is: elements and texts, and how deep they nest. */
interface Shape {
  nodes: number
  depth: number
}

interface Limit extends Shape {
  nodesTimesDepth: number
}

/**
 * Up to where a reading takes no more than a few seconds, measured: finding the article costs about the nodes times
 * their depth, and far more with the depth alone (600 levels around nothing take two seconds, 1,000 half a minute).
 */
const ARTICLE: Limit = { depth: 150, nodes: 50_000, nodesTimesDepth: 2_000_000 }
const MARKDOWN: Limit = { depth: 500, nodes: 150_000, nodesTimesDepth: 10_000_000 }

/** How much of a page's structure can be made use of: `article` without menus and the like, `markdown` all of it, `text` none. */
export const readingOf = ({ depth, nodes }: Shape): 'article' | 'markdown' | 'text' => {
  const fits = (limit: Limit): boolean => depth <= limit.depth && nodes <= limit.nodes && depth * nodes <= limit.nodesTimesDepth
  if (fits(ARTICLE)) return 'article'
  return fits(MARKDOWN) ? 'markdown' : 'text'
}

/** A page as Markdown: its readable part where that can be told apart. A page nested absurdly deep, or huge, is read as plain text. */
export const parseHtml = async (source: string): Promise<Parsed> => {
  const reading = readingOf(await shapeOf(source))
  return reading === 'text' ? readText(source) : readPage(source, reading)
}

/** Ends the look at a page that is past every limit: the parser's own stack would slow it down. */
class PastLimits extends Error {}

/** The tree that the parser will build, without building it. */
const shapeOf = async (source: string): Promise<Shape> => {
  const { Parser } = await import('htmlparser2')
  const shape = { nodes: 0, depth: 0 }
  let depth = 0
  const count = (): void => {
    shape.nodes += 1
    shape.depth = Math.max(shape.depth, depth)
    if (shape.nodes > MARKDOWN.nodes || depth > MARKDOWN.depth) throw new PastLimits()
  }
  const parser = new Parser({
    onopentagname: () => {
      depth += 1
      count()
    },
    onclosetag: () => {
      depth -= 1
    },
    ontext: count,
  })
  try {
    parser.end(source)
  } catch (error) {
    if (!(error instanceof PastLimits)) throw error
  }
  return shape
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

const readPage = async (source: string, reading: 'article' | 'markdown'): Promise<Parsed> => {
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
  const article = reading === 'article' ? new Readability(page.cloneNode(true)).parse() : null
  const markdown = new Turndown({ headingStyle: 'atx', bulletListMarker: '-', codeBlockStyle: 'fenced' }).addRule('no images', {
    filter: 'img',
    replacement: (_content, node) => (node as unknown as Element).getAttribute('alt') ?? '',
  })
  const content = read(`<!doctype html><html><body>${article?.content ?? body}</body></html>`).body
  return { text: markdown.turndown(content), title: article?.title ?? title }
}

/** Elements whose content is not for readers. */
const HIDDEN = new Set(['script', 'style', 'noscript', 'template', 'iframe', 'object', 'title'])
/** Elements within a line; any other begins and ends one. */
const INLINE = new Set(
  'a abbr acronym b bdi bdo big cite code data del dfn em font i img ins kbd label mark q s samp small span strike strong sub sup time tt u var wbr'.split(
    ' ',
  ),
)

/** The text alone, in one pass over the source that needs no tree: its time grows with the size, whatever the nesting. */
const readText = async (source: string): Promise<Parsed> => {
  const { Tokenizer } = await import('htmlparser2')
  const parts: string[] = []
  const title: string[] = []
  /** The hidden element that is open, if one is. */
  let hidden: string | undefined
  const add = (text: string): void => {
    if (hidden === undefined) parts.push(text)
    else if (hidden === 'title') title.push(text)
  }
  const onTag = (start: number, end: number): string => {
    const name = source.slice(start, end).toLowerCase()
    if (hidden === undefined && !INLINE.has(name)) parts.push('\n')
    return name
  }
  const nothing = (): void => undefined
  const tokenizer = new Tokenizer(
    { decodeEntities: true },
    {
      onopentagname: (start, end) => {
        const name = onTag(start, end)
        if (hidden === undefined && HIDDEN.has(name)) hidden = name
      },
      onclosetag: (start, end) => {
        if (onTag(start, end) === hidden) hidden = undefined
      },
      ontext: (start, end) => add(source.slice(start, end)),
      ontextentity: codepoint => add(String.fromCodePoint(codepoint)),
      onattribdata: nothing,
      onattribentity: nothing,
      onattribend: nothing,
      onattribname: nothing,
      oncdata: nothing,
      oncomment: nothing,
      ondeclaration: nothing,
      onend: nothing,
      onopentagend: nothing,
      onprocessinginstruction: nothing,
      onselfclosingtag: nothing,
    },
  )
  tokenizer.write(source)
  tokenizer.end()
  const lines = parts.join('').split(/\n\s*/)
  const text = lines
    .map(line => line.replaceAll(/[ \t\r\f]+/g, ' ').trim())
    .filter(line => line !== '')
    .join('\n')
  return { text, title: title.join('').trim() }
}
