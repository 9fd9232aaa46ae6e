import type { Worker } from 'node:worker_threads'
import { startWorker, type WorkerName } from './worker.js'

/** What the main thread sends to a worker, and what it gets back. */
export interface Question<Task> {
  number: number
  task: Task
}
export type Answer = { number: number; result: unknown } | { number: number; error: string }

const MAX_PENDING = 1_000

interface ThreadOptions {
  worker: WorkerName
  /** What it does, for messages: `the thread that compares vectors`. */
  name: string
  /** Without work the thread ends after this long, and what it holds is gone. */
  idleMs: number
  maxHeapMb: number
}

interface Pending {
  resolve: (result: unknown) => void
  reject: (error: Error) => void
}

/** A worker thread that answers questions in their order, and keeps what it likes between them. It starts at the first one. */
export class Thread<Task> {
  readonly #options: ThreadOptions
  readonly #pending = new Map<number, Pending>()
  #worker: Worker | undefined
  #idle: NodeJS.Timeout | undefined
  #last = 0

  constructor(options: ThreadOptions) {
    this.#options = options
  }

  /** Rejects with what is wrong with the task, or when the thread died under it. */
  run(task: Task): Promise<unknown> {
    if (this.#pending.size >= MAX_PENDING) return Promise.reject(new Error(`too much waits for ${this.#options.name}`))
    const worker = (this.#worker ??= this.#start())
    clearTimeout(this.#idle)
    const number = ++this.#last
    return new Promise<unknown>((resolve, reject) => {
      this.#pending.set(number, { resolve, reject })
      worker.postMessage({ number, task } satisfies Question<Task>)
    })
  }

  /** Ends the thread; a further task starts another one. */
  async close(): Promise<void> {
    clearTimeout(this.#idle)
    const worker = this.#worker
    this.#worker = undefined
    this.#rejectAll(`${this.#options.name} was ended`)
    await worker?.terminate()
  }

  #start(): Worker {
    const { worker: program, name, idleMs, maxHeapMb } = this.#options
    const worker = startWorker(program, { resourceLimits: { maxOldGenerationSizeMb: maxHeapMb } })
    worker.on('message', (answer: Answer) => {
      const pending = this.#pending.get(answer.number)
      this.#pending.delete(answer.number)
      if ('error' in answer) pending?.reject(new Error(answer.error))
      else pending?.resolve(answer.result)
      if (this.#pending.size === 0) this.#idle = setTimeout(() => void this.close(), idleMs).unref()
    })
    let reason = `${name} ended`
    worker.on('error', (error: Error) => {
      reason = `${name} failed: ${error.message}`
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
