import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
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
  const definition: PluginDefinition = {
    kind: 'extractor',
    serve: ({ log }) => ({
      handlers: {
        'extractor.extract': async (params, context) => {
          const document: ExtractedDocument = {
            ...pick(params),
            read: () => readFile(params.path),
            get signal() {
              return context.signal
            },
            progress: context.progress,
            log,
          }
          const found = await extractor.extract(document)
          return deliver(found, join(params.outputDir, `text-${++written}.txt`))
        },
      },
      stop: () => Promise.resolve(),
    }),
  }
  startSoon(definition)
  return definition
}

const pick = ({ path, name, extension, mimeType, size, outputDir }: ExtractParams): ExtractParams => ({
  path,
  name,
  extension,
  mimeType,
  size,
  outputDir,
})

async function deliver(found: ExtractedText, textPath: string): Promise<ExtractResult> {
  const { text, title } = (found as Partial<ExtractedText> | undefined) ?? {}
  if (typeof text !== 'string') throw new Error('extract() must return an object with a text')
  const extras = title === undefined ? {} : { title }
  if (Buffer.byteLength(text) <= MAX_INLINE_BYTES) return { text, ...extras }
  await writeFile(textPath, text)
  return { textPath, ...extras }
}
