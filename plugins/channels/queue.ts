import type { Collection, Document, Filter } from '../../core/store/collection.js'
import { Occupancy, type Room } from './occupancy.js'
import type { Delivery } from './rows.js'

const DAY_MS = 86_400_000
/** How long the same message, or the same task's reply, is known again. */
export const REMEMBER_MS = 7 * DAY_MS
const DEAD_MS = 30 * DAY_MS
/** Dead letters kept a channel, in each direction; the oldest go first. */
export const MAX_DEAD = 100
/** A dead letter larger than this keeps its reason and loses its content. */
const MAX_DEAD_BYTES = 64 * 1024

const after = (ms: number): string => new Date(Date.now() + ms).toISOString()

/** Deliveries of channels in one direction, on disk: waiting in order of arrival, done and remembered, or dead with a reason. */
export class DeliveryQueue<T extends Delivery & Document> {
  readonly rows: Collection<T>
  readonly #occupancy: Occupancy
  /** Fields that hold the content; removed when a delivery is done. */
  readonly #content: readonly string[]
  #lastSeq = 0

  constructor(rows: Collection<T>, content: readonly string[], limit: Room) {
    this.rows = rows
    this.#content = content
    this.#occupancy = new Occupancy(channelId => this.#measure(channelId), limit)
  }

  /** The place of what arrives now: after everything before, also after a restart. */
  nextSeq(): number {
    this.#lastSeq = Math.max(this.#lastSeq + 1, Date.now() * 1000)
    return this.#lastSeq
  }

  /** Room for more, or false when the channel's queue is full. */
  reserve(channelId: string, room: Room): Promise<boolean> {
    return this.#occupancy.reserve(channelId, room)
  }

  /** Takes the room whether it is there or not. */
  occupy(channelId: string, room: Room): Promise<void> {
    return this.#occupancy.occupy(channelId, room)
  }

  release(channelId: string, room: Room): Promise<void> {
    return this.#occupancy.release(channelId, room)
  }

  remeasure(channelId: string): void {
    this.#occupancy.forget(channelId)
  }

  /** Handled: its content goes, its id stays known for a week. */
  async done(row: T): Promise<void> {
    const $unset = Object.fromEntries(this.#content.map(name => [name, '']))
    await this.#settle(row, { $set: { state: 'done', bytes: 0, nextAt: null, expiresAt: after(REMEMBER_MS) }, $unset })
  }

  /** Removes it without a trace. */
  async discard(row: T): Promise<void> {
    if (await this.rows.deleteOne(this.#waiting(row))) await this.release(row.channelId, { count: 1, bytes: row.bytes })
  }

  async retry(row: T, { delayMs, attempts, crashes }: { delayMs: number; attempts: number; crashes: number }): Promise<void> {
    await this.rows.updateOne(this.#waiting(row), { $set: { attempts, crashes, nextAt: after(delayMs) } })
  }

  /** A dead letter: kept with its reason, for a person to look at. */
  async bury(row: T, reason: string): Promise<void> {
    const $unset = Object.fromEntries(this.#content.map(name => [name, '']))
    const $set = deadFields(row, reason)
    await this.#settle(row, isTooLarge(row) ? { $set, $unset } : { $set })
    await this.#trimDead(row.channelId)
  }

  /** Stores what there is no room for as a dead letter. It took no room, so it gives none back. */
  protected async insertDead(row: T, reason: string): Promise<void> {
    const dead: T = { ...row, ...deadFields(row, reason) }
    const kept = isTooLarge(row) ? Object.fromEntries(Object.entries(dead).filter(([name]) => !this.#content.includes(name))) : dead
    await this.rows.insertOne(kept as T)
    await this.#trimDead(row.channelId)
  }

  async counts(channelId: string): Promise<{ waiting: number; dead: number }> {
    return { waiting: await this.#count(channelId, 'waiting'), dead: await this.#count(channelId, 'dead') }
  }

  /** The newest dead letters first. */
  dead(channelId: string, limit: number): Promise<T[]> {
    return this.rows.find(filter({ state: 'dead', channelId }), { sort: { seq: -1 }, limit })
  }

  /** Channels in which something waits. */
  async channelsWaiting(): Promise<string[]> {
    const groups = await this.rows.aggregate<{ _id: string }>([{ $match: { state: 'waiting' } }, { $group: { _id: '$channelId' } }])
    return groups.map(({ _id }) => _id)
  }

  async removeAll(channelId: string): Promise<void> {
    await this.rows.deleteMany(filter({ channelId }))
    this.#occupancy.forget(channelId)
  }

  async #settle(row: T, update: { $set: Record<string, unknown>; $unset?: Record<string, unknown> }): Promise<void> {
    if (await this.rows.updateOne(this.#waiting(row), update)) await this.release(row.channelId, { count: 1, bytes: row.bytes })
  }

  async #trimDead(channelId: string): Promise<void> {
    const excess = (await this.#count(channelId, 'dead')) - MAX_DEAD
    if (excess <= 0) return
    const oldest = await this.rows.find(filter({ state: 'dead', channelId }), { sort: { seq: 1 }, limit: excess })
    await this.rows.deleteMany(filter({ id: { $in: oldest.map(({ id }) => id) } }))
  }

  async #measure(channelId: string): Promise<Room> {
    const count = await this.#count(channelId, 'waiting')
    // Apart from the count: not every server that speaks MongoDB's protocol fills more than one sum of a group.
    const [room] = await this.rows.aggregate<{ bytes: number }>([
      { $match: { state: 'waiting', channelId } },
      { $group: { _id: null, bytes: { $sum: '$bytes' } } },
    ])
    return { count, bytes: room?.bytes ?? 0 }
  }

  #count(channelId: string, state: string): Promise<number> {
    return this.rows.count(filter({ state, channelId }))
  }

  #waiting(row: T): Filter<T> {
    return filter({ id: row.id, state: 'waiting' })
  }
}

const isTooLarge = ({ bytes }: Delivery): boolean => bytes > MAX_DEAD_BYTES

const deadFields = (row: Delivery, reason: string) => ({
  state: 'dead' as const,
  nextAt: null,
  expiresAt: after(DEAD_MS),
  reason: isTooLarge(row) ? `${reason} (content of ${row.bytes} bytes not kept)` : reason,
})

/** The fields of `Delivery` are those of every `T`, which the compiler cannot see through a generic filter. */
const filter = <T>(fields: Record<string, unknown>): Filter<T> => fields as Filter<T>
