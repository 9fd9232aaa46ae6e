import type { Worker } from 'node:worker_threads'
import { GatewayError, serviceUnavailable } from '../../errors.js'
import { startWorker } from '../../worker.js'
import { DuplicateKey } from '../collection.js'
import type { Table, TableDefinition } from './table.js'
import type { Aggregation, Batch, Failure, WorkerSettings } from './worker.js'

const closeTimeoutMs = 10_000

interface Waiting {
  resolve(answer: unknown): void
  reject(error: Error): void
}

/**
 * A worker thread with its own connection, started by its first message and again after a crash. It answers one message
 * at a time; it keeps the process alive only while it owes an answer.
 */
export class StoreThread {
  readonly #settings: WorkerSettings
  readonly #tables: ReadonlyMap<string, Table>
  readonly #defined = new Set<string>()
  #worker: Worker | undefined
  #waiting: Waiting | undefined
  #exited: Promise<void> = Promise.resolve()

  constructor(settings: WorkerSettings, tables: ReadonlyMap<string, Table>) {
    this.#settings = settings
    this.#tables = tables
  }

  /** Rejects with `service_unavailable` when the thread dies before it answers: the work may or may not have been done. */
  ask(work: Omit<Batch, 'define'> | Omit<Aggregation, 'define'>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      const worker = (this.#worker ??= this.#start())
      this.#waiting = { resolve, reject }
      worker.ref()
      worker.postMessage({ define: this.#undefined(), ...work })
    })
  }

  /** Lets the thread close its connection, and ends it when that takes too long. */
  async close(): Promise<void> {
    this.#worker?.ref()
    this.#worker?.postMessage('close')
    const late = setTimeout(() => void this.terminate(), closeTimeoutMs)
    await this.#exited
    clearTimeout(late)
  }

  /** Ends the thread at once: what it owes is refused. The next message starts another. */
  async terminate(): Promise<void> {
    await this.#worker?.terminate()
  }

  #undefined(): TableDefinition[] {
    const missing = [...this.#tables.values()].filter(({ name }) => !this.#defined.has(name))
    for (const { name } of missing) this.#defined.add(name)
    return missing.map(({ name, indexes, irregular }) => ({ name, indexes, irregular: [...irregular] }))
  }

  #start(): Worker {
    const worker = startWorker('sqliteWorker', { workerData: this.#settings })
    this.#defined.clear()
    let cause: unknown
    worker.on('message', (answer: unknown) => {
      const waiting = this.#waiting
      this.#waiting = undefined
      worker.unref()
      waiting?.resolve(answer)
    })
    worker.on('error', error => (cause = error))
    this.#exited = new Promise(resolve => {
      worker.once('exit', () => {
        this.#worker = undefined
        this.#waiting?.reject(
          Object.assign(serviceUnavailable('The store stopped during this request: it may or may not have been done'), { cause }),
        )
        this.#waiting = undefined
        resolve()
      })
    })
    return worker
  }
}

/** The error that a failure in the thread was. */
export const revive = ({ error }: Failure, collection: string): Error => {
  if (error.kind === 'duplicate') return new DuplicateKey(collection, error.fields)
  const remote = new Error(error.message)
  if (error.stack !== undefined) remote.stack = error.stack
  if (error.kind === 'unavailable') return new GatewayError('service_unavailable', error.message, { cause: remote })
  return error.kind === 'invalid' ? new TypeError(error.message, { cause: remote }) : remote
}
