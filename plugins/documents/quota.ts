import PQueue from 'p-queue'
import { conflict, payloadTooLarge, serviceUnavailable } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import type { Owner, ScopedHandle } from '../../core/store/collection.js'
import type { DocumentRow, ReservationRow } from './rows.js'

/** Uploads of one user under way at once, over all gateways. */
const MAX_RESERVATIONS = 500
/** A reservation that is neither used nor given back by then belonged to a gateway that is gone. */
const RESERVATION_MS = 600_000
const RETRY_AFTER_SECONDS = 5

export interface QuotaLimits {
  bytes: number
  documents: number
}

interface Parts {
  rows: ScopedHandle<DocumentRow>
  reservations: ScopedHandle<ReservationRow>
  /** Of one user. */
  limits: () => QuotaLimits
  log: Log
}

/**
 * What one user may keep. Room is reserved on disk before a document is written, and everybody counts what others have
 * reserved: uploads at the same time never exceed a limit together, on several gateways either (there, two that race for
 * the last room may both be refused).
 */
export class Quota {
  readonly #parts: Parts
  /** One at a time, so that within a gateway the last room goes to one of those who race for it. */
  readonly #turns = new PQueue({ concurrency: 1 })

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Runs `store`, which stores the document, with room for it. Throws `payload_too_large` or `conflict` when there is none. */
  async within<T>(owner: Owner, { id, size }: Pick<DocumentRow, 'id' | 'size'>, store: () => Promise<T>): Promise<T> {
    const reservations = this.#parts.reservations.for(owner)
    await this.#turns.add(() => this.#reserve(owner, { id, size }))
    try {
      return await store()
    } finally {
      // What was stored stays stored, and room that is not given back now comes back when the reservation expires.
      await reservations.deleteOne({ id }).catch((error: unknown) => {
        this.#parts.log.warn({ err: error, documentId: id }, 'the room reserved for a document could not be given back')
      })
    }
  }

  async #reserve(owner: Owner, { id, size }: { id: string; size: number }): Promise<void> {
    const now = Date.now()
    const expiresAt = new Date(now + RESERVATION_MS).toISOString()
    const reservations = this.#parts.reservations.for(owner)
    await reservations.insertOne({ id, size, createdAt: new Date(now).toISOString(), expiresAt })
    try {
      await this.#check(owner, size)
    } catch (error) {
      await reservations.deleteOne({ id })
      throw error
    }
  }

  /** The reservations first, then the documents: one that becomes a document in between is counted by its id, once. */
  async #check(owner: Owner, size: number): Promise<void> {
    const { rows, reservations, limits } = this.#parts
    const max = limits()
    const now = new Date().toISOString()
    const reserved = await reservations.for(owner).find({ expiresAt: { $gt: now } }, { limit: MAX_RESERVATIONS + 1 })
    if (reserved.length > MAX_RESERVATIONS) throw serviceUnavailable('Too many of your uploads are under way', RETRY_AFTER_SECONDS)
    const others = { id: { $nin: reserved.map(({ id }) => id) } }
    const kept = await rows.for(owner).count(others)
    const documents = kept + reserved.length
    if (documents > max.documents)
      throw conflict(`You keep ${kept} documents here, and no more than ${max.documents} are allowed: delete some first`, {
        maxDocuments: max.documents,
      })
    // Apart from the count: not every server that speaks MongoDB's protocol fills more than one sum of a group.
    const [stored = { bytes: 0 }] = await rows
      .for(owner)
      .aggregate<{ bytes: number }>([{ $match: others }, { $group: { _id: null, bytes: { $sum: '$size' } } }])
    const bytes = stored.bytes + reserved.reduce((sum, reservation) => sum + reservation.size, 0)
    if (size > 0 && bytes > max.bytes) throw payloadTooLarge('With this document, what you keep here', max.bytes)
  }
}
