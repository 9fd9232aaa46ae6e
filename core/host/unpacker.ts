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
  #task: { resolve: (result: UnpackResult) => void; reject: (error: Error) => void } | undefined
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
    clearTimeout(this.#idle)
    const worker = (this.#worker ??= this.#start())
    worker.ref()
    const result = await this.#ask(worker, task).catch(async (error: unknown) => {
      await this.#end()
      throw new StageError(`the archive could not be unpacked: ${(error as Error).message}`)
    })
    // A thread without work keeps no process alive.
    worker.unref()
    this.#idle = setTimeout(() => void this.#end(), IDLE_MS).unref()
    if ('evidence' in result) return result.evidence
    if ('failed' in result) throw new Error(result.failed)
    throw result.invalid ? new IntegrityError(result.refused) : new StageError(result.refused)
  }

  #start(): Worker {
    const worker = startWorker('archiveUnpacker', { resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB } })
    // Also one that fails when it has no work is replaced, and hurts nobody.
    const fail = (error: Error): void => {
      if (this.#worker === worker) this.#worker = undefined
      this.#task?.reject(error)
    }
    worker.on('message', (result: UnpackResult) => this.#task?.resolve(result))
    worker.on('error', fail)
    worker.on('exit', () => {
      if (this.#worker === worker) fail(new Error('the thread that unpacks ended'))
    })
    return worker
  }

  async #ask(worker: Worker, task: UnpackTask): Promise<UnpackResult> {
    let timer: NodeJS.Timeout | undefined
    try {
      return await new Promise((resolve, reject) => {
        this.#task = { resolve, reject }
        timer = setTimeout(() => {
          reject(new Error(`it took more than ${TIMEOUT_MS / 1000} s`))
        }, TIMEOUT_MS)
        worker.postMessage(task)
      })
    } finally {
      clearTimeout(timer)
      this.#task = undefined
    }
  }
}
