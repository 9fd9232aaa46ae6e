import PQueue from 'p-queue'
import type { Piscina } from 'piscina'
import { diskFull } from '../../core/errors.js'
import { threadOptions, workerFile } from '../../core/worker.js'
import type { ParseAnswer, ParsedText, ParseTask } from './parseWorker.js'

/** The text that a plugin gave is none. The message goes on after "it". */
export class NotUnicode extends Error {}

/** Documents parsed at once; the gateway's own thread keeps a processor. */
const MAX_THREADS = 2
/** Threads without work end after this long: parsers and their libraries take memory. */
const IDLE_MS = 10_000
const MAX_HEAP_MB = 512

/** Parses documents in worker threads with limits: a document that hangs or exhausts its thread fails alone. */
export class Parser {
  readonly #timeoutMs: number
  /** In turn, so that the time of one does not run while it waits for a thread. */
  readonly #turns = new PQueue({ concurrency: MAX_THREADS })
  #pool: Promise<Piscina> | undefined

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /**
   * Writes the text to the task's draft. Rejects with `NotUnicode`, with `service_unavailable` for a full disk, or with an
   * error whose message is the reason to show.
   */
  async parse(task: ParseTask, signal: AbortSignal): Promise<ParsedText> {
    const answer = await this.#turns.add(() => this.#run(task, signal), { signal })
    if (!('failure' in answer)) return answer
    throw answer.failure === 'diskFull' ? diskFull(new Error(answer.message)) : new NotUnicode(answer.message)
  }

  async close(): Promise<void> {
    this.#turns.clear()
    const pool = await this.#pool
    await pool?.destroy()
  }

  async #run(task: ParseTask, signal: AbortSignal): Promise<ParseAnswer> {
    this.#pool ??= createPool()
    const pool = await this.#pool
    const timeout = AbortSignal.timeout(this.#timeoutMs)
    try {
      return (await pool.run(task, { signal: AbortSignal.any([signal, timeout]) })) as ParseAnswer
    } catch (error) {
      if (timeout.aborted) throw new Error(`reading it took more than ${this.#timeoutMs / 1000} s`)
      if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY')
        throw new Error(`reading it took more than ${MAX_HEAP_MB} MiB of memory`)
      if (error instanceof RangeError) throw new Error('its content is nested too deeply')
      throw error
    }
  }
}

const createPool = async (): Promise<Piscina> => {
  const { Piscina: Pool } = await import('piscina')
  return new Pool({
    filename: workerFile('documentParser').href,
    minThreads: 0,
    maxThreads: MAX_THREADS,
    idleTimeout: IDLE_MS,
    resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB },
    ...threadOptions,
  })
}
