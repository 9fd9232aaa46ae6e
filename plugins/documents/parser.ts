import type { Piscina } from 'piscina'
import { workerFile } from '../../core/worker.js'
import type { ParsedHere, ParseTask } from './parseWorker.js'

/** Documents parsed at once; the gateway's own thread keeps a processor. */
const MAX_THREADS = 2
/** Threads without work end after this long: parsers and their libraries take memory. */
const IDLE_MS = 10_000
const MAX_HEAP_MB = 512

/** Parses documents in worker threads with limits: a document that hangs or exhausts its thread fails alone. */
export class Parser {
  readonly #timeoutMs: number
  #pool: Promise<Piscina> | undefined

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs
  }

  /** Rejects with an error whose message is the reason to show. */
  async parse(task: ParseTask, signal: AbortSignal): Promise<ParsedHere> {
    this.#pool ??= createPool()
    const pool = await this.#pool
    const timeout = AbortSignal.timeout(this.#timeoutMs)
    try {
      return (await pool.run(task, { signal: AbortSignal.any([signal, timeout]) })) as ParsedHere
    } catch (error) {
      if (timeout.aborted) throw new Error(`reading it took more than ${this.#timeoutMs / 1000} s`)
      if ((error as NodeJS.ErrnoException).code === 'ERR_WORKER_OUT_OF_MEMORY')
        throw new Error(`reading it took more than ${MAX_HEAP_MB} MiB of memory`)
      if (error instanceof RangeError) throw new Error('its content is nested too deeply')
      throw error
    }
  }

  async close(): Promise<void> {
    const pool = await this.#pool
    await pool?.destroy()
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
  })
}
