import type { Worker } from 'node:worker_threads'
import { startWorker } from '../worker.js'
import type { SignatureEvidence } from './signature.js'
import { IntegrityError, StageError } from './stage.js'
import type { UnpackResult, UnpackTask } from './unpackWorker.js'

const MAX_HEAP_MB = 128
const TIMEOUT_MS = 60_000

/** The thread ends when there was nothing to do for this long. */
const IDLE_MS = 2_000

/** Unpacks archives in a thread of its own, one at a time. The thread comes with the first and goes when there are no more. */
export class Unpacker {
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined
  #turn: Promise<unknown> = Promise.resolve()

  /** Unpacks into an empty directory and checks everything; see `extractArchive`. */
  extract(task: UnpackTask): Promise<SignatureEvidence> {
    const result = this.#turn.then(() => this.#extract(task))
    this.#turn = result.catch(() => undefined)
    return result
  }

  async close(): Promise<void> {
    await this.#turn
    await this.#end()
  }

  async #end(): Promise<void> {
    clearTimeout(this.#idle)
    const worker = this.#worker
    this.#worker = undefined
    await worker?.terminate()
  }

  async #extract(task: UnpackTask): Promise<SignatureEvidence> {
    this.#worker ??= startWorker('archiveUnpacker', { resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB } })
    clearTimeout(this.#idle)
    this.#worker.ref()
    const result = await this.#ask(this.#worker, task).catch(async (error: unknown) => {
      await this.#end()
      throw new StageError(`the archive could not be unpacked: ${(error as Error).message}`)
    })
    // A thread without work keeps no process alive.
    this.#worker.unref()
    this.#idle = setTimeout(() => void this.#end(), IDLE_MS).unref()
    if ('evidence' in result) return result.evidence
    if ('failed' in result) throw new Error(result.failed)
    throw result.invalid ? new IntegrityError(result.refused) : new StageError(result.refused)
  }

  async #ask(worker: Worker, task: UnpackTask): Promise<UnpackResult> {
    let timer: NodeJS.Timeout | undefined
    try {
      return await new Promise((resolve, reject) => {
        timer = setTimeout(() => {
          reject(new Error(`it took more than ${TIMEOUT_MS / 1000} s`))
        }, TIMEOUT_MS)
        worker
          .once('message', resolve)
          .once('error', reject)
          .once('exit', () => {
            reject(new Error('the thread that unpacks ended'))
          })
        worker.postMessage(task)
      })
    } finally {
      clearTimeout(timer)
      for (const event of ['message', 'error', 'exit']) worker.removeAllListeners(event)
    }
  }
}
