import { RENEW_MS } from '../../core/lease.js'
import type { Log } from '../../core/log.js'
import type { ScopedHandle } from '../../core/store/collection.js'
import type { PluginExtractor, PluginHost } from '../plugins/contract.js'
import type { Blobs } from './blobs.js'
import { judge } from './failure.js'
import { builtinFormat } from './formats.js'
import { versionOf, type Jobs } from './jobs.js'
import { Outcomes } from './outcomes.js'
import type { Parser } from './parser.js'
import type { Passages } from './passages.js'
import { chooseExtractor } from './pluginExtraction.js'
import { Reader, type Outcome } from './reader.js'
import type { DocumentRow, JobRow } from './rows.js'

/** Documents worked on at once by one gateway; of each plugin one, so that it is known which document ended it. */
const CONCURRENCY = 4
/** How often a gateway looks for what is due by now, or was left behind by another, in milliseconds. */
const LOOK_MS = 5_000
/** Rounds of one look; each rules out the jobs of the ones before. */
const MAX_ROUNDS = 100

interface Parts {
  rows: ScopedHandle<DocumentRow>
  jobs: Jobs
  blobs: Blobs
  passages: Passages
  parser: Parser
  host: PluginHost
  log: Log
}

interface Run {
  abort: AbortController
  done: Promise<void>
}

/** Extracts texts in the background. A job is on disk from the upload until the text, or the reason why there is none, is. */
export class Extraction {
  readonly #parts: Parts
  readonly #reader: Reader
  readonly #outcomes: Outcomes
  readonly #running = new Map<string, Run>()
  /** Plugins that read a document for this gateway. */
  readonly #busy = new Set<string>()
  #timers: NodeJS.Timeout[] = []
  #looking: Promise<void> | undefined
  #again = false
  #open = false
  /** The plugins are known: a file that none of them takes is one that nothing reads. */
  #knowsPlugins = false

  constructor(parts: Parts) {
    this.#parts = parts
    this.#reader = new Reader(parts)
    this.#outcomes = new Outcomes(parts)
  }

  /** Begins to work, with what earlier runs left. */
  start(): void {
    this.#open = true
    this.#timers = [setInterval(() => this.wake(), LOOK_MS), setInterval(() => void this.#renew(), RENEW_MS)]
    this.wake()
    void this.#parts.host.discovered.then(() => {
      this.#knowsPlugins = true
      this.#lookAtPlugins()
    })
  }

  /** Looks for work now. Calls during a look make one more. */
  wake(): void {
    if (!this.#open) return
    this.#again = true
    this.#looking ??= this.#look().finally(() => {
      this.#looking = undefined
      if (this.#again) this.wake()
    })
  }

  /** Plugins have changed: what waited for one that now runs is taken up. */
  async pluginsChanged(): Promise<void> {
    if (!this.#open) return
    await this.#parts.jobs.wake(this.#parts.host.extractors())
    this.wake()
  }

  /** Nobody wants the text any more. */
  cancel(id: string): void {
    this.#running.get(id)?.abort.abort('unwanted')
  }

  /** Takes no more work, and puts back what it was working on: it counts as not tried. */
  async stop(): Promise<void> {
    this.#open = false
    for (const timer of this.#timers) clearInterval(timer)
    await this.#looking
    for (const { abort } of this.#running.values()) abort.abort('stopping')
    await Promise.all([...this.#running.values()].map(({ done }) => done))
  }

  get #hasRoom(): boolean {
    return this.#open && this.#running.size < CONCURRENCY
  }

  async #look(): Promise<void> {
    this.#again = false
    try {
      for (const job of await this.#parts.jobs.cutOff()) await this.#outcomes.finishRemoval(job)
      for (const job of await this.#parts.jobs.abandoned()) await this.#consider(job)
      const seen: string[] = []
      for (let round = 0; round < MAX_ROUNDS && this.#hasRoom; round += 1) {
        const jobs = await this.#parts.jobs.due({ ids: seen, extensions: this.#busyExtensions() })
        if (jobs.length === 0) return
        for (const job of jobs) {
          seen.push(job.id)
          await this.#consider(job)
        }
      }
    } catch (error) {
      this.#parts.log.error({ err: error }, 'could not look for documents to read; it is tried again')
    }
  }

  /** What only a plugin takes that has its hands full. */
  #busyExtensions(): string[] {
    return this.#parts.host
      .extractors()
      .flatMap(({ pluginId, extensions }) => (this.#busy.has(pluginId) ? extensions : []))
      .filter(extension => builtinFormat(extension, '') === undefined)
  }

  /** Starts the job, if it can be done here and now. */
  async #consider(job: JobRow): Promise<void> {
    const { jobs, rows, blobs, log } = this.#parts
    if (!this.#hasRoom || this.#running.has(job.id)) return
    const document = await rows.for(job).findOne({ id: job.id })
    if (!document) {
      await jobs.dropOrphan(job)
      return
    }
    if (!(await blobs.has(document.id, document.version))) {
      await this.#outcomes.noteWait(job, document, 'the gateway that keeps its file')
      return
    }
    const plugin = this.#pluginFor(job, document)
    const isBuiltin = builtinFormat(document.extension, document.mimeType) !== undefined
    if (plugin ? this.#busy.has(plugin.pluginId) : !isBuiltin && !this.#knowsPlugins) return
    if (plugin) this.#busy.add(plugin.pluginId)
    const claimed = await jobs.claim(job).catch((error: unknown) => {
      log.error({ err: error, documentId: job.id }, 'a document could not be taken up; it is tried again')
      return null
    })
    if (claimed) this.#begin(claimed, document, plugin)
    else if (plugin) this.#busy.delete(plugin.pluginId)
  }

  #begin(job: JobRow, document: DocumentRow, plugin: PluginExtractor | undefined): void {
    const abort = new AbortController()
    const done = this.#run(job, document, plugin, abort.signal)
      .catch((error: unknown) => {
        this.#parts.log.error({ err: error, documentId: job.id }, 'a document could not be worked on; it is tried again')
      })
      .finally(() => {
        this.#running.delete(job.id)
        if (plugin) this.#busy.delete(plugin.pluginId)
        this.wake()
      })
    this.#running.set(job.id, { abort, done })
  }

  #pluginFor({ refused = [] }: JobRow, { extension, mimeType }: DocumentRow): PluginExtractor | undefined {
    if (builtinFormat(extension, mimeType)) return undefined
    const able = this.#parts.host.extractors().filter(extractor => !refused.includes(versionOf(extractor)))
    return chooseExtractor(able, extension)
  }

  async #run(job: JobRow, document: DocumentRow, plugin: PluginExtractor | undefined, signal: AbortSignal): Promise<void> {
    const { jobs, blobs } = this.#parts
    await blobs.tidy(document.id)
    const outcome = await this.#reader.read(job, document, plugin, signal)
    if (signal.aborted) {
      if (signal.reason === 'stopping') await jobs.release(job.id, { counts: false })
    } else if (await jobs.isHeld(job.id)) await this.#recordOrRetry(job, document, outcome)
    await blobs.tidy(document.id)
  }

  /** What could not be recorded is read again; a gateway that is in trouble itself costs the document no try. */
  async #recordOrRetry(job: JobRow, document: DocumentRow, outcome: Outcome): Promise<void> {
    try {
      if (await this.#outcomes.record(job, document, outcome)) this.#lookAtPlugins()
    } catch (error) {
      const verdict = judge(error)
      await this.#parts.jobs.release(job.id, verdict.kind === 'later' ? verdict : { delayMs: LOOK_MS, counts: true })
      throw error
    }
  }

  /** A plugin that got ready before the job was put to wait for it takes it up at once. */
  #lookAtPlugins(): void {
    this.pluginsChanged().catch((error: unknown) => {
      this.#parts.log.error({ err: error }, 'documents that wait for a plugin could not be looked at')
    })
  }

  /** Keeps the leases of what runs; what another gateway took over meanwhile is let go. */
  async #renew(): Promise<void> {
    for (const [id, { abort }] of this.#running) {
      try {
        if (!(await this.#parts.jobs.renew(id))) abort.abort('taken')
      } catch (error) {
        this.#parts.log.error({ err: error, documentId: id }, 'the lease of a document could not be renewed; it is tried again')
      }
    }
  }
}
