import { setImmediate as nextTurn } from 'node:timers/promises'
import { serviceUnavailable } from '../../errors.js'
import type { Table } from './table.js'
import { revive, type StoreThread } from './thread.js'
import type { BatchAnswer } from './worker.js'
import type { Write, WriteResult } from './write.js'

/** The most that waits for the disk; a write beyond it is refused. */
const maxWaiting = 10_000
const maxWaitingBytes = 128 * 1024 * 1024
/** The most that shares one commit. */
const maxBatch = 1000
const maxBatchBytes = 8 * 1024 * 1024

interface Job {
  table: Table
  write: Write
  bytes: number
  resolve: (result: WriteResult) => void
  reject: (error: unknown) => void
  /** Runs before the promise of the write settles. */
  done: () => void
}

/** Group commit: writes that wait while one transaction is synced to disk share the next. */
export class WriteQueue {
  readonly #thread: StoreThread
  readonly #onIrregular: (changed: BatchAnswer['irregular']) => void
  #waiting: Job[] = []
  #bytes = 0
  #running: Promise<void> | undefined
  #closed = false

  constructor(thread: StoreThread, onIrregular: (changed: BatchAnswer['irregular']) => void) {
    this.#thread = thread
    this.#onIrregular = onIrregular
  }

  /** A write of about `bytes` bytes. Rejects with `service_unavailable` when too much is waiting. */
  submit(table: Table, write: Write, bytes: number, done: () => void): Promise<WriteResult> {
    return new Promise((resolve, reject) => {
      const refusal = this.#refusal(bytes)
      if (refusal) {
        done()
        reject(refusal)
        return
      }
      this.#waiting.push({ table, write, bytes, resolve, reject, done })
      this.#bytes += bytes
      this.#running ??= this.#run()
    })
  }

  /** Resolves when everything that was submitted is written. */
  async close(): Promise<void> {
    this.#closed = true
    await this.#running
  }

  #refusal(bytes: number): Error | undefined {
    if (this.#closed) return serviceUnavailable('The store is closed')
    if (this.#waiting.length < maxWaiting && this.#bytes + bytes <= maxWaitingBytes) return undefined
    return serviceUnavailable('Too many writes are waiting for the disk: try again in a moment', 1)
  }

  async #run(): Promise<void> {
    while (this.#waiting.length > 0) {
      // What this turn of the event loop still writes joins the commit.
      await nextTurn()
      await this.#commit(this.#take())
    }
    this.#running = undefined
  }

  #take(): Job[] {
    let total = 0
    let size = 0
    for (const { bytes } of this.#waiting) {
      total += bytes
      if (size > 0 && (size >= maxBatch || total > maxBatchBytes)) break
      size++
    }
    const batch = this.#waiting.slice(0, size)
    this.#waiting = this.#waiting.slice(size)
    for (const { bytes } of batch) this.#bytes -= bytes
    return batch
  }

  async #commit(batch: Job[]): Promise<void> {
    try {
      const writes = batch.map(({ table, write }) => ({ collection: table.name, write }))
      const { results, irregular } = (await this.#thread.ask({ writes })) as BatchAnswer
      this.#onIrregular(irregular)
      for (const { done } of batch) done()
      for (const [index, { table, resolve, reject }] of batch.entries()) {
        const result = results[index]
        if (!result || 'error' in result) reject(result ? revive(result, table.name) : new Error('The store did not answer a write'))
        else resolve(result)
      }
    } catch (error) {
      for (const { done, reject } of batch) {
        done()
        reject(error)
      }
    }
  }
}
