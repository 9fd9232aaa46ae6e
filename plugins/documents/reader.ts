import type { PluginExtractor, PluginHost } from '../plugins/contract.js'
import type { Blobs } from './blobs.js'
import { judge } from './failure.js'
import { builtinFormat } from './formats.js'
import type { Parser } from './parser.js'
import type { ParsedText, TextSource } from './parseWorker.js'
import { extractByPlugin } from './pluginExtraction.js'
import type { DocumentRow, JobRow } from './rows.js'

/** Tries after which a document is given up: it may be what ends the gateway. */
const MAX_ATTEMPTS = 3
const MAX_TEXT_LENGTH = 5_000_000

interface Parts {
  blobs: Blobs
  parser: Parser
  host: PluginHost
}

/** What came of one try to read a document. */
export type Outcome =
  | { extractor: string; draft: string; parsed: ParsedText }
  | { extractor: string | null; failed: string }
  | { waitsFor: string }
  | { crashed: PluginExtractor }
  | { lacks: string }
  | { later: number; counts: boolean }

/** Reads one document, by a plugin or a built-in format. The text is in a draft, which is the caller's to keep. */
export class Reader {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async read(job: JobRow, document: DocumentRow, plugin: PluginExtractor | undefined, signal: AbortSignal): Promise<Outcome> {
    if (job.attempts > MAX_ATTEMPTS)
      return { extractor: document.extractor, failed: `given up: ${MAX_ATTEMPTS} times the gateway ended, or failed, while it was read` }
    if (plugin && !plugin.ready) return { waitsFor: plugin.pluginId }
    try {
      return plugin ? await this.#readByPlugin(plugin, document, signal) : await this.#readHere(document, signal)
    } catch (error) {
      const reason = (error as Error).message
      const extractor = plugin?.pluginId ?? null
      const verdict = judge(error)
      if (plugin && verdict.kind === 'crashed') return { crashed: plugin }
      if (plugin && verdict.kind === 'gone') return { waitsFor: plugin.pluginId }
      if (verdict.kind === 'later' && (job.attempts < MAX_ATTEMPTS || !verdict.counts))
        return { later: verdict.delayMs, counts: verdict.counts }
      return { extractor, failed: reason }
    }
  }

  async #readHere(document: DocumentRow, signal: AbortSignal): Promise<Outcome> {
    const { id, version, extension, mimeType } = document
    const format = builtinFormat(extension, mimeType)
    if (!format) return { lacks: extension }
    const draft = this.#parts.blobs.draft(id, version)
    try {
      const parsed = await this.#keep(draft, { kind: 'document', path: this.#parts.blobs.path(id, version), format, mimeType }, signal)
      return { extractor: `builtin:${parsed.format ?? format}`, draft, parsed }
    } catch (error) {
      if (judge(error).kind === 'later') throw error
      return { extractor: format === 'sniff' ? null : `builtin:${format}`, failed: (error as Error).message }
    }
  }

  async #readByPlugin({ pluginId }: PluginExtractor, document: DocumentRow, signal: AbortSignal): Promise<Outcome> {
    const { id, version, extension, mimeType, name, size } = document
    const draft = this.#parts.blobs.draft(id, version)
    const keep = (source: TextSource): Promise<ParsedText> => this.#keep(draft, source, signal)
    const task = { path: this.#parts.blobs.path(id, version), name, extension, mimeType, size, keep }
    return { extractor: pluginId, draft, parsed: await extractByPlugin(this.#parts.host, pluginId, task, signal) }
  }

  #keep(draft: string, source: TextSource, signal: AbortSignal): Promise<ParsedText> {
    return this.#parts.parser.parse({ source, draft, maxLength: MAX_TEXT_LENGTH }, signal)
  }
}
