import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { HandlerContext } from './incomingCalls.js'
import type { PluginLog } from './log.js'
import type { ExtractParams, ExtractResult } from './protocol.js'
import { startSoon, type PluginDefinition } from './runtime.js'

/** Texts up to this many bytes of UTF-8 travel in the answer, larger ones by file. */
const MAX_INLINE_BYTES = 1024 * 1024

/** A document to read. */
export interface ExtractedDocument {
  /** A private copy, readable for the length of the call. */
  path: string
  /** The document's file name, for example `meeting.ics`. */
  name: string
  /** Lower case, with the dot. */
  extension: string
  mimeType: string
  /** Bytes. */
  size: number
  /** A directory, writable for the length of the call, for whatever is needed on the way. */
  outputDir: string
  /** The document's bytes. */
  read: () => Promise<Buffer>
  /** Aborted when nobody waits for the text any more. */
  readonly signal: AbortSignal
  /** Call it now and then in long work: without progress the gateway gives up after a while. `percent` is 0 to 100. */
  progress: (percent?: number, message?: string) => void
  log: PluginLog
}

/** What was found in a document. */
export interface ExtractedText {
  /** Of any length. */
  text: string
  title?: string
}

/** A document extractor: how to read one document. Throw `rejected(...)` for a document that is not what it seems to be. */
export interface DocumentExtractor {
  extract(document: ExtractedDocument): ExtractedText | Promise<ExtractedText>
}

/** Declares this process a document extractor, and runs it. Call it once, in the entry file, and export the result for the test kit. */
export function defineDocumentExtractor(extractor: DocumentExtractor): PluginDefinition {
  let written = 0
  const nextFile = (): string => `text-${++written}.txt`
  const definition: PluginDefinition = {
    kind: 'extractor',
    serve: ({ log }) => ({
      handlers: {
        'extractor.extract': (params, context) => {
          const found = extractor.extract(new Document(params, context, log))
          const finish = (text: ExtractedText): ExtractResult | Promise<ExtractResult> => deliver(text, params.outputDir, nextFile)
          // What is there already is answered in the same turn: half of a small call is the turns that it takes.
          return isThenable(found) ? Promise.resolve(found).then(finish) : finish(found)
        },
      },
      stop: () => Promise.resolve(),
    }),
  }
  startSoon(definition)
  return definition
}

/** A class: an object with accessors of its own costs as much as the rest of a small call. */
class Document implements ExtractedDocument {
  readonly path: string
  readonly name: string
  readonly extension: string
  readonly mimeType: string
  readonly size: number
  readonly outputDir: string
  readonly log: PluginLog
  readonly #context: HandlerContext

  constructor({ path, name, extension, mimeType, size, outputDir }: ExtractParams, context: HandlerContext, log: PluginLog) {
    this.path = path
    this.name = name
    this.extension = extension
    this.mimeType = mimeType
    this.size = size
    this.outputDir = outputDir
    this.log = log
    this.#context = context
  }

  get read(): () => Promise<Buffer> {
    return () => readFile(this.path)
  }

  get signal(): AbortSignal {
    return this.#context.signal
  }

  get progress(): HandlerContext['progress'] {
    return this.#context.progress
  }
}

const isThenable = (found: ExtractedText | Promise<ExtractedText>): found is Promise<ExtractedText> =>
  typeof (found as Partial<Promise<ExtractedText>> | undefined)?.then === 'function'

function deliver(found: ExtractedText, outputDir: string, nextFile: () => string): ExtractResult | Promise<ExtractResult> {
  const { text, title } = (found as Partial<ExtractedText> | undefined) ?? {}
  if (typeof text !== 'string') throw new Error('extract() must return an object with a text')
  const extras = title === undefined ? {} : { title }
  if (text.length * 3 <= MAX_INLINE_BYTES || Buffer.byteLength(text) <= MAX_INLINE_BYTES) return { text, ...extras }
  const textPath = join(outputDir, nextFile())
  return writeFile(textPath, text).then(() => ({ textPath, ...extras }))
}
