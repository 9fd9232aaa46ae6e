import type { Worker } from 'node:worker_threads'
import { startWorker } from '../../core/worker.js'
import type { Results, Task } from './vectorSpaces.js'
import type { Answer, Question } from './vectorWorker.js'

/** Without work the thread ends, and what it holds is read again from the store when it is needed. */
const IDLE_MS = 60_000
const MAX_PENDING = 1_000
const MAX_HEAP_MB = 256

interface Pending {
  resolve: (result: unknown) => void
  reject: (error: Error) => void
}

/** The thread that holds vectors and compares them, so that a search never holds up the gateway. It starts at the first task. */
export class VectorThread {
  readonly #pending = new Map<number, Pending>()
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined
  #last = 0

  /** Rejects with what is wrong with the vectors, or when the thread died under it. */
  run<K extends Task['kind']>(task: Task & { kind: K }): Promise<Results[K]> {
    if (this.#pending.size >= MAX_PENDING) return Promise.reject(new Error('too many searches wait for their turn'))
    const worker = (this.#worker ??= this.#start())
    clearTimeout(this.#idle)
    const number = ++this.#last
    return new Promise<unknown>((resolve, reject) => {
      this.#pending.set(number, { resolve, reject })
      worker.postMessage({ number, task } satisfies Question)
    }) as Promise<Results[K]>
  }

  /** Ends the thread; a further task starts another one. */
  async close(): Promise<void> {
    clearTimeout(this.#idle)
    const worker = this.#worker
    this.#worker = undefined
    this.#rejectAll('the thread that compares vectors was ended')
    await worker?.terminate()
  }

  #start(): Worker {
    const worker = startWorker('vectorSearch', { resourceLimits: { maxOldGenerationSizeMb: MAX_HEAP_MB } })
    worker.on('message', (answer: Answer) => {
      const pending = this.#pending.get(answer.number)
      this.#pending.delete(answer.number)
      if ('error' in answer) pending?.reject(new Error(answer.error))
      else pending?.resolve(answer.result)
      if (this.#pending.size === 0) this.#idle = setTimeout(() => void this.close(), IDLE_MS).unref()
    })
    let reason = 'the thread that compares vectors ended'
    worker.on('error', (error: Error) => {
      reason = `the thread that compares vectors failed: ${error.message}`
    })
    worker.on('exit', () => {
      if (this.#worker !== worker) return
      this.#worker = undefined
      clearTimeout(this.#idle)
      this.#rejectAll(reason)
    })
    return worker
  }

  #rejectAll(reason: string): void {
    const lost = [...this.#pending.values()]
    this.#pending.clear()
    for (const { reject } of lost) reject(new Error(reason))
  }
}
