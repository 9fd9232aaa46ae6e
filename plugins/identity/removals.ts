import type { Log } from '../../core/log.js'
import { Looks } from '../../core/looks.js'
import { DuplicateKey, type Collection, type Owner } from '../../core/store/collection.js'
import type { RemovalRow } from './rows.js'

/** Ends or removes what an owner has in one area. */
type End = (owner: Owner) => Promise<void>

export interface RemovalTimes {
  /** Between two looks for what is to be done. */
  lookMs: number
  /** Each area is asked twice, so long apart: what was under way at the first time may have stored something behind it. */
  againMs: number
}

export const removalTimes: RemovalTimes = { lookMs: 30_000, againMs: 60_000 }

/** A removal whose user is still there after this was not gone through with. */
const ABANDONED_MS = 600_000
const BATCH = 100

interface Parts {
  rows: Collection<RemovalRow>
  /** Whether the user is still there. */
  exists: (userId: string) => Promise<boolean>
  log: Log
  times?: RemovalTimes
}

/**
 * What users leave behind when they are removed. A removal is on disk before its user goes, and until every area has
 * ended what the user had there: what a crash interrupts is done at the next start, or by another gateway.
 */
export class Removals {
  readonly #parts: Parts
  readonly #times: RemovalTimes
  readonly #ends = new Map<string, End>()
  readonly #looks = new Looks(() => this.#look())

  constructor(parts: Parts) {
    this.#parts = parts
    this.#times = parts.times ?? removalTimes
  }

  register(area: string, end: End): () => void {
    if (this.#ends.has(area)) throw new Error(`Two plugins end what removed users had in ${area}`)
    this.#ends.set(area, end)
    return () => this.#ends.delete(area)
  }

  /** Notes that the user is about to go. */
  async note({ tenant, userId }: Owner): Promise<void> {
    const now = new Date().toISOString()
    try {
      await this.#parts.rows.insertOne({ id: userId, tenant, dueAt: now, ended: false, createdAt: now })
    } catch (error) {
      if (!(error instanceof DuplicateKey)) throw error
      // One that was not gone through with: it counts from now, or it would be taken for abandoned.
      await this.#parts.rows.updateOne({ id: userId }, { $set: { dueAt: now, createdAt: now } })
    }
  }

  start(): void {
    this.#looks.start()
  }

  /** Looks for work now. */
  wake(): void {
    this.#looks.wake()
  }

  stop(): Promise<void> {
    return this.#looks.stop()
  }

  async #look(): Promise<number> {
    try {
      const due = await this.#parts.rows.find({ dueAt: { $lte: new Date().toISOString() } }, { sort: { dueAt: 1 }, limit: BATCH })
      for (const row of due) if (this.#looks.isOpen) await this.#work(row)
    } catch (error) {
      this.#parts.log.error({ err: error }, 'could not look for what removed users left behind; it is tried again')
    }
    return this.#times.lookMs
  }

  async #work(row: RemovalRow): Promise<void> {
    const { rows, exists } = this.#parts
    if (await exists(row.id)) {
      if (Date.parse(row.createdAt) < Date.now() - ABANDONED_MS) await rows.deleteOne({ id: row.id, createdAt: row.createdAt })
      return
    }
    if (!(await this.#endAll({ tenant: row.tenant, userId: row.id }))) {
      // Behind the others, which may be more than one look takes up.
      await rows.updateOne({ id: row.id }, { $set: { dueAt: new Date(Date.now() + this.#times.lookMs).toISOString() } })
      return
    }
    if (row.ended) await rows.deleteOne({ id: row.id })
    else await rows.updateOne({ id: row.id }, { $set: { ended: true, dueAt: new Date(Date.now() + this.#times.againMs).toISOString() } })
  }

  /** Those that build on others first. Whether every area is done. */
  async #endAll(owner: Owner): Promise<boolean> {
    let isDone = true
    for (const [area, end] of [...this.#ends].reverse())
      try {
        await end(owner)
      } catch (error) {
        isDone = false
        this.#parts.log.error({ err: error, userId: owner.userId, area }, 'what a removed user had could not be ended; it is tried again')
      }
    return isDone
  }
}
