import { createHash } from 'node:crypto'
import { serviceUnavailable } from '../../core/errors.js'
import { DuplicateKey, type Collection } from '../../core/store/collection.js'
import type { InboundMessage, WebhookRequest } from '../../sdk/protocol.js'
import type { Room } from './occupancy.js'
import { DeliveryQueue } from './queue.js'
import type { InboxRow } from './rows.js'

/** What may wait for one channel; beyond it platforms are told to send again later. */
export const INBOX_LIMIT = { count: 1000, bytes: 16 * 1024 * 1024 }
export const RETRY_AFTER_SECONDS = 30

const full = () => serviceUnavailable('Too much waits to be handled for this channel: send it again later', RETRY_AFTER_SECONDS)

/** One row a message, found by the channel and the platform's id of it: so the same message twice is one. */
const idOf = (channelId: string, messageId: string): string =>
  `msg_${createHash('sha256')
    .update(JSON.stringify([channelId, messageId]))
    .digest('base64url')}`

const roomOf = (rows: readonly InboxRow[]): Room => ({ count: rows.length, bytes: rows.reduce((sum, { bytes }) => sum + bytes, 0) })

const sizeOf = (content: unknown): number => Buffer.byteLength(JSON.stringify(content))

/** What came in for channels, on disk before anybody is told that it was received. */
export class Inbox extends DeliveryQueue<InboxRow> {
  constructor(rows: Collection<InboxRow>) {
    super(rows, ['request', 'message'], INBOX_LIMIT)
  }

  /**
   * Stores the messages that are new; resolves with their number. Rejects with `service_unavailable` when there is no
   * room: nothing of it is stored then.
   */
  async accept(channelId: string, messages: readonly InboundMessage[]): Promise<number> {
    const fresh = await this.#unknown(this.#messageRows(channelId, messages, this.nextSeq()))
    if (fresh.length === 0) return 0
    if (!(await this.reserve(channelId, roomOf(fresh)))) throw full()
    return this.#insert(channelId, fresh)
  }

  /**
   * Stores the messages of a kept request at its place, before what came after it. There is always room: what was
   * acknowledged must get on, and a full inbox empties in no other way.
   */
  async take({ channelId, seq }: InboxRow, messages: readonly InboundMessage[]): Promise<void> {
    const fresh = await this.#unknown(this.#messageRows(channelId, messages, seq))
    if (fresh.length === 0) return
    await this.occupy(channelId, roomOf(fresh))
    await this.#insert(channelId, fresh)
  }

  /** Keeps a request for later, when the adapter is there. `failed`: it was tried once. */
  async keep(
    channelId: string,
    deliveryId: string,
    request: WebhookRequest,
    failed: { attempts: number; crashes: number; delayMs: number },
  ): Promise<void> {
    const bytes = sizeOf(request)
    if (!(await this.reserve(channelId, { count: 1, bytes }))) throw full()
    const { attempts, crashes, delayMs } = failed
    const nextAt = delayMs > 0 ? new Date(Date.now() + delayMs).toISOString() : null
    const row = {
      ...newDelivery(channelId, this.nextSeq(), bytes),
      id: deliveryId,
      kind: 'request' as const,
      index: 0,
      request,
      attempts,
      crashes,
      nextAt,
    }
    try {
      await this.rows.insertOne(row)
    } catch (error) {
      await this.release(channelId, { count: 1, bytes })
      throw error
    }
  }

  /** What is next in the order of arrival, due or not. */
  next(channelId: string): Promise<InboxRow | null> {
    return this.rows.findOne({ state: 'waiting', channelId }, { sort: { seq: 1, index: 1 } })
  }

  #messageRows(channelId: string, messages: readonly InboundMessage[], seq: number): InboxRow[] {
    return messages.map((message, index) => ({
      ...newDelivery(channelId, seq, sizeOf(message)),
      id: idOf(channelId, message.id),
      kind: 'message',
      index,
      message,
    }))
  }

  async #insert(channelId: string, fresh: InboxRow[]): Promise<number> {
    try {
      await this.rows.insertMany(fresh)
      return fresh.length
    } catch (error) {
      // How much of it was stored is not known here: measured again at the next look.
      this.remeasure(channelId)
      if (error instanceof DuplicateKey) return await this.#insertEach(fresh)
      throw error
    }
  }

  /** Those not stored before; of twins in one call the first. */
  async #unknown(rows: InboxRow[]): Promise<InboxRow[]> {
    const byId = new Map(rows.toReversed().map(row => [row.id, row]))
    const known = await this.rows.find({ id: { $in: [...byId.keys()] } })
    for (const { id } of known) byId.delete(id)
    return [...byId.values()].sort((a, b) => a.index - b.index)
  }

  /** Another request with the same messages came in between: what is left of these. */
  async #insertEach(rows: InboxRow[]): Promise<number> {
    let accepted = 0
    for (const row of rows) {
      try {
        await this.rows.insertOne(row)
        accepted += 1
      } catch (error) {
        if (!(error instanceof DuplicateKey)) throw error
      }
    }
    return accepted
  }
}

export const newDelivery = (channelId: string, seq: number, bytes: number) => ({
  channelId,
  state: 'waiting' as const,
  seq,
  bytes,
  attempts: 0,
  crashes: 0,
  nextAt: null,
  reason: null,
  createdAt: new Date().toISOString(),
})
