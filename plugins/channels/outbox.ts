import { DuplicateKey, type Collection } from '../../core/store/collection.js'
import { newDelivery } from './inbox.js'
import type { Room } from './occupancy.js'
import { DeliveryQueue } from './queue.js'
import type { OutboxRow } from './rows.js'

/** Replies that may wait for one channel, for example while its plugin is stopped; those beyond it are dead letters at once. */
export const OUTBOX_LIMIT = { count: 10_000, bytes: 64 * 1024 * 1024 }
/** Longer than a call to an adapter can take. */
const CLAIM_MS = 10 * 60_000

export interface NewReply {
  /** The task's id: one reply a task. */
  id: string
  channelId: string
  recipient: string
  text: string
  metadata: Record<string, string | number | boolean>
}

/** Replies on their way to platforms. */
export class Outbox extends DeliveryQueue<OutboxRow> {
  readonly #holder: string

  constructor(rows: Collection<OutboxRow>, holder: string, limit: Room = OUTBOX_LIMIT) {
    super(rows, ['text', 'metadata'], limit)
    this.#holder = holder
  }

  /** Stores a reply; the same again is no other. Resolves with whether it is to be sent: not when it is known or there is no room. */
  async add({ id, channelId, recipient, text, metadata }: NewReply): Promise<boolean> {
    const bytes = Buffer.byteLength(text) + Buffer.byteLength(JSON.stringify(metadata))
    const room = { count: 1, bytes }
    const row = { ...newDelivery(channelId, this.nextSeq(), bytes), id, recipient, text, metadata, claimedBy: null, claimedUntil: null }
    const fits = await this.reserve(channelId, room)
    try {
      if (fits) await this.rows.insertOne(row)
      else await this.insertDead(row, 'the outbox of the channel is full')
      return fits
    } catch (error) {
      if (fits) await this.release(channelId, room)
      if (error instanceof DuplicateKey) return false
      throw error
    }
  }

  /** The oldest replies to other recipients than these. */
  waiting(channelId: string, exceptRecipients: readonly string[], limit: number): Promise<OutboxRow[]> {
    const recipient = exceptRecipients.length > 0 ? { recipient: { $nin: [...exceptRecipients] } } : {}
    return this.rows.find({ state: 'waiting', channelId, ...recipient }, { sort: { seq: 1 }, limit })
  }

  /**
   * Makes the reply this gateway's to send, unless another has it. A claim of our own from before a crash is ours again;
   * one of another gateway from before `since`, when this one took the channel over, has ended with it.
   */
  claim(row: OutboxRow, since: number): Promise<OutboxRow | null> {
    const over = new Date(Math.max(Date.now(), since + CLAIM_MS)).toISOString()
    const free = { $or: [{ claimedBy: null }, { claimedBy: this.#holder }, { claimedUntil: { $lt: over } }] }
    const claimedUntil = new Date(Date.now() + CLAIM_MS).toISOString()
    return this.rows.findOneAndUpdate({ id: row.id, state: 'waiting', ...free }, { $set: { claimedBy: this.#holder, claimedUntil } })
  }
}
