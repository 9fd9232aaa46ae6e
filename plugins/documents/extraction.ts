import PQueue from 'p-queue'
import type { Log } from '../../core/log.js'
import type { Collection, Owner, ScopedHandle } from '../../core/store/collection.js'
import { RpcError } from '../../sdk/rpc.js'
import type { PluginHost } from '../plugins/contract.js'
import type { Blobs } from './blobs.js'
import { builtinFormat } from './formats.js'
import type { Parser } from './parser.js'
import type { Parsed } from './parseWorker.js'
import type { Passages } from './passages.js'
import { chooseExtractor, extractByPlugin } from './pluginExtraction.js'
import type { DocumentRow, JobRow } from './rows.js'

/** Documents worked on at once. */
const CONCURRENCY = 4
/** Tries after which a document is given up: it may be what ends its plugin, or the gateway. */
const MAX_ATTEMPTS = 3
const MAX_TEXT_LENGTH = 5_000_000
/** Jobs taken up at once at the start, or when a plugin becomes ready; the rest follows. */
const BATCH = 500

interface Parts {
  rows: ScopedHandle<DocumentRow>
  jobs: Collection<JobRow>
  blobs: Blobs
  passages: Passages
  parser: Parser
  host: PluginHost
  log: Log
}

type Outcome =
  | { extractor: string; parsed: Parsed }
  | { extractor: string | null; failed: string }
  | { waitsFor: string; tried: boolean }
  | { lacks: string }

/** Extracts texts in the background. A job is on disk from the upload until the text, or the reason why there is none, is. */
export class Extraction {
  readonly #parts: Parts
  readonly #queue = new PQueue({ concurrency: CONCURRENCY })
  readonly #running = new Map<string, AbortController>()
  #stopping = false

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Takes up what an earlier run left. */
  async resume(): Promise<void> {
    await this.#takeUp({ state: 'queued' })
  }

  /** Plugins have changed: what waited for one that now runs is taken up. */
  async pluginsChanged(): Promise<void> {
    const extensions = [...new Set(this.#parts.host.extractors().flatMap(({ ready, extensions }) => (ready ? extensions : [])))]
    if (extensions.length > 0 && !this.#stopping) await this.#takeUp({ state: 'waiting', extension: { $in: extensions } })
  }

  enqueue(id: string): void {
    if (this.#stopping || this.#running.has(id)) return
    const abort = new AbortController()
    this.#running.set(id, abort)
    void this.#queue.add(async () => {
      try {
        if (!abort.signal.aborted) await this.#run(id, abort.signal)
      } catch (error) {
        this.#parts.log.error({ err: error, documentId: id }, 'a document could not be worked on; it is tried again at the next start')
      } finally {
        this.#running.delete(id)
      }
    })
  }

  cancel(id: string): void {
    this.#running.get(id)?.abort()
  }

  async stop(): Promise<void> {
    this.#stopping = true
    for (const abort of this.#running.values()) abort.abort()
    await this.#queue.onIdle()
  }

  async #takeUp(filter: { state: JobRow['state']; extension?: { $in: string[] } }): Promise<void> {
    const jobs = await this.#parts.jobs.find(filter, { sort: { createdAt: 1 }, limit: BATCH })
    for (const { id } of jobs) this.enqueue(id)
    if (jobs.length === BATCH) void this.#queue.onIdle().then(() => (this.#stopping ? undefined : this.#takeUp(filter)))
  }

  async #run(id: string, signal: AbortSignal): Promise<void> {
    const { jobs, rows } = this.#parts
    const job = await jobs.findOneAndUpdate({ id }, { $inc: { attempts: 1 }, $set: { state: 'queued' } })
    if (!job) return
    const document = await rows.for(job).findOne({ id })
    if (!document) {
      await jobs.deleteOne({ id })
      return
    }
    const outcome =
      job.attempts > MAX_ATTEMPTS
        ? { extractor: document.extractor, failed: `given up after ${MAX_ATTEMPTS} tries` }
        : await this.#extract(document, signal)
    if (!signal.aborted) await this.#record(job, document, outcome)
  }

  async #extract(document: DocumentRow, signal: AbortSignal): Promise<Outcome> {
    const { parser, blobs, host } = this.#parts
    const { id, version, extension, mimeType, name, size } = document
    const path = blobs.path(id, version)
    const format = builtinFormat(extension, mimeType)
    if (format) {
      const extractor = `builtin:${format}`
      try {
        return { extractor, parsed: await parser.parse({ path, format, mimeType, maxLength: MAX_TEXT_LENGTH }, signal) }
      } catch (error) {
        return { extractor, failed: (error as Error).message }
      }
    }
    const plugin = chooseExtractor(host.extractors(), extension)
    if (!plugin) return { lacks: extension }
    if (!plugin.ready) return { waitsFor: plugin.pluginId, tried: false }
    try {
      const parsed = await extractByPlugin(
        host,
        plugin.pluginId,
        { path, name, extension, mimeType, size, maxLength: MAX_TEXT_LENGTH },
        signal,
      )
      return { extractor: plugin.pluginId, parsed }
    } catch (error) {
      // The plugin is gone or overloaded: the document waits for it. It counts as a try: the document may be the cause.
      if (error instanceof RpcError && error.retryable) return { waitsFor: plugin.pluginId, tried: true }
      return { extractor: plugin.pluginId, failed: (error as Error).message }
    }
  }

  async #record(job: JobRow, document: DocumentRow, outcome: Outcome): Promise<void> {
    if ('parsed' in outcome) {
      await this.#keepText(job, document, outcome.extractor, outcome.parsed)
      return
    }
    if ('waitsFor' in outcome) {
      await this.#change(job, document, { status: 'extracting', reason: `waits for the plugin ${outcome.waitsFor}, which does not run` })
      await this.#wait(job, outcome.tried)
      return
    }
    if ('lacks' in outcome) {
      const what = outcome.lacks === '' ? 'files without an extension' : `${outcome.lacks} files`
      await this.#change(job, document, {
        status: 'failed',
        extractor: null,
        reason: `nothing here reads ${what}: install a plugin that does, and it is read then`,
      })
      await this.#wait(job, false)
      return
    }
    await this.#change(job, document, { status: 'failed', extractor: outcome.extractor, reason: outcome.failed.slice(0, 1000) })
    await this.#parts.jobs.deleteOne({ id: job.id })
  }

  async #keepText(job: JobRow, document: DocumentRow, extractor: string, { text, title }: Parsed): Promise<void> {
    const { blobs, passages, jobs } = this.#parts
    await blobs.writeText(document.id, document.version, text)
    await passages.index(job, document, text)
    const cut = text.length >= MAX_TEXT_LENGTH ? { reason: `only the first ${MAX_TEXT_LENGTH} characters were kept` } : {}
    const kept = await this.#change(
      job,
      document,
      { status: 'ready', extractor, ...cut, ...(title === undefined ? {} : { title }) },
      'reason' in cut ? [] : ['reason'],
    )
    // Deleted meanwhile: nothing of it stays.
    if (!kept) await Promise.all([blobs.remove(document.id), passages.remove(job, document.id)])
    await jobs.deleteOne({ id: job.id })
  }

  /** The job stays, for when a plugin that takes the document runs; one that runs by now takes it up at once. */
  async #wait({ id, attempts }: JobRow, counts: boolean): Promise<void> {
    await this.#parts.jobs.updateOne({ id }, { $set: { state: 'waiting', attempts: counts ? attempts : attempts - 1 } })
    setImmediate(() => {
      this.pluginsChanged().catch((error: unknown) => {
        this.#parts.log.error({ err: error }, 'waiting documents could not be looked at')
      })
    })
  }

  #change(owner: Owner, { id, version }: DocumentRow, change: Partial<DocumentRow>, unset: string[] = []): Promise<boolean> {
    return this.#parts.rows.for(owner).updateOne(
      { id, version },
      {
        $set: { ...change, updatedAt: new Date().toISOString() },
        ...(unset.length === 0 ? {} : { $unset: Object.fromEntries(unset.map(name => [name, ''])) }),
      },
    )
  }
}
