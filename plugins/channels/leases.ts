import { randomUUID } from 'node:crypto'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Log } from '../../core/log.js'
import { DuplicateKey, type Collection } from '../../core/store/collection.js'
import type { ConnectionRow } from './rows.js'
import { Serial } from './serial.js'

/** Channels of a gone gateway that are taken up in one look. */
const MAX_FREED = 500

/** This gateway's id among those on one store: kept in its data directory, so that after a crash its leases are its own again. */
export const gatewayId = async (dataDir: string): Promise<string> => {
  const file = join(dataDir, 'gateway-id')
  await mkdir(dataDir, { recursive: true, mode: 0o700 })
  const id = `gw_${randomUUID()}`
  try {
    await writeFile(file, id, { flag: 'wx', mode: 0o600 })
    return id
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return (await readFile(file, 'utf8')).trim()
  }
}

interface Held {
  fence: number
  until: number
  /** When this gateway took it from another, or from nobody. */
  since: number
}

/**
 * One gateway at a time works on a channel: connects it, handles its inbox, sends its replies. A lease is a document
 * with holder, end and fencing number; all of a gateway's leases are renewed by one write, and only while it has any.
 */
export class Leases {
  readonly #rows: Collection<ConnectionRow>
  readonly #holder: string
  readonly #log: Log
  readonly #leaseMs: number
  readonly #serial = new Serial()
  readonly #held = new Map<string, Held>()
  readonly #onLost: (channelIds: string[]) => void
  #timer: NodeJS.Timeout | undefined

  /** A gateway that stopped renewing loses its channels after `leaseMs`; clocks of gateways may differ by a part of it. */
  constructor(parts: {
    rows: Collection<ConnectionRow>
    holder: string
    leaseMs: number
    log: Log
    onLost: (channelIds: string[]) => void
  }) {
    this.#rows = parts.rows
    this.#holder = parts.holder
    this.#leaseMs = parts.leaseMs
    this.#log = parts.log
    this.#onLost = parts.onLost
  }

  /** Gives back what this gateway held before it was killed: it takes again what it can work on, and leaves the rest to others. */
  async begin(): Promise<void> {
    const held = { holder: this.#holder }
    // Looked at first: a write makes the start of the gateway wait for the store's thread.
    if (await this.#rows.findOne(held)) await this.#rows.updateMany(held, { $set: { holder: null, status: 'disconnected' } })
  }

  has(channelId: string): boolean {
    return (this.#held.get(channelId)?.until ?? 0) > Date.now()
  }

  /** When this gateway took the channel, in milliseconds; what another began before that is over. */
  since(channelId: string): number | undefined {
    return this.#held.get(channelId)?.since
  }

  /** Whether this gateway has the channel, taking it when it is free or its holder is gone. */
  hold(channelId: string): Promise<boolean> {
    return this.has(channelId) ? Promise.resolve(true) : this.#serial.run(channelId, () => this.#hold(channelId))
  }

  release(channelId: string): Promise<void> {
    return this.#serial.run(channelId, () => this.#release(channelId))
  }

  /** At a graceful stop. The leases end now, which other gateways see at their next look. */
  async releaseAll(): Promise<void> {
    clearTimeout(this.#timer)
    await this.#serial.idle()
    this.#held.clear()
    const until = new Date().toISOString()
    await this.#rows.updateMany({ holder: this.#holder }, { $set: { until, status: 'disconnected' } })
  }

  /** Channels whose holder stopped or was killed: free from now on. */
  async freeAbandoned(): Promise<string[]> {
    const gone = { holder: { $nin: [null, this.#holder] }, until: { $lte: new Date().toISOString() } }
    const ids = (await this.#rows.find(gone, { limit: MAX_FREED })).map(({ id }) => id)
    if (ids.length > 0) await this.#rows.updateMany({ id: { $in: ids }, ...gone }, { $set: { holder: null, status: 'disconnected' } })
    return ids
  }

  /** Changes the channel's connection document, as its holder. Resolves with false when it no longer is. */
  async save(channelId: string, fields: Partial<Pick<ConnectionRow, 'status' | 'lastError' | 'info' | 'cursor'>>): Promise<boolean> {
    const held = this.#held.get(channelId)
    if (!held) return false
    return this.#rows.updateOne({ id: channelId, holder: this.#holder, fence: held.fence }, { $set: fields })
  }

  async cursor(channelId: string): Promise<string | undefined> {
    return (await this.#rows.findOne({ id: channelId }))?.cursor ?? undefined
  }

  /** What other gateways say of the channels that they hold. */
  async elsewhere(channelIds: string[]): Promise<Map<string, ConnectionRow>> {
    if (channelIds.length === 0) return new Map()
    const now = new Date().toISOString()
    const rows = await this.#rows.find({ id: { $in: channelIds }, holder: { $nin: [null, this.#holder] }, until: { $gt: now } })
    return new Map(rows.map(row => [row.id, row]))
  }

  async forget(channelId: string): Promise<void> {
    this.#held.delete(channelId)
    await this.#rows.deleteOne({ id: channelId })
  }

  async #hold(channelId: string): Promise<boolean> {
    if (this.has(channelId)) return true
    const before = this.#held.get(channelId)
    const row = (await this.#again(channelId)) ?? (await this.#takeOver(channelId)) ?? (await this.#create(channelId))
    if (!row) return false
    const since = before?.fence === row.fence ? before.since : Date.now()
    this.#held.set(channelId, { fence: row.fence, until: Date.parse(row.until), since })
    this.#timer ??= setTimeout(() => void this.#renew(), this.#leaseMs / 3).unref()
    return true
  }

  async #release(channelId: string): Promise<void> {
    const held = this.#held.get(channelId)
    if (!held) return
    this.#held.delete(channelId)
    await this.#rows.updateOne({ id: channelId, holder: this.#holder, fence: held.fence }, { $set: { holder: null } })
  }

  #end(): string {
    return new Date(Date.now() + this.#leaseMs).toISOString()
  }

  #again(channelId: string): Promise<ConnectionRow | null> {
    return this.#rows.findOneAndUpdate({ id: channelId, holder: this.#holder }, { $set: { until: this.#end() } })
  }

  #takeOver(channelId: string): Promise<ConnectionRow | null> {
    const free = { $or: [{ holder: null }, { until: { $lt: new Date().toISOString() } }] }
    return this.#rows.findOneAndUpdate(
      { id: channelId, ...free },
      { $set: { holder: this.#holder, until: this.#end() }, $inc: { fence: 1 } },
    )
  }

  async #create(channelId: string): Promise<ConnectionRow | null> {
    const fields = { status: 'disconnected', lastError: null, info: null, cursor: null }
    const row: ConnectionRow = { id: channelId, holder: this.#holder, fence: 1, until: this.#end(), ...fields }
    try {
      await this.#rows.insertOne(row)
      return row
    } catch (error) {
      if (error instanceof DuplicateKey) return null
      throw error
    }
  }

  async #renew(): Promise<void> {
    try {
      const until = this.#end()
      const renewed = await this.#rows.updateMany({ holder: this.#holder }, { $set: { until } })
      for (const held of this.#held.values()) held.until = Date.parse(until)
      if (renewed < this.#held.size) await this.#findLost()
    } catch (error) {
      this.#log.error({ err: error }, 'the leases of channels could not be renewed')
      this.#drop([...this.#held].filter(([, { until }]) => until <= Date.now()).map(([id]) => id))
    }
    this.#timer = this.#held.size > 0 ? setTimeout(() => void this.#renew(), this.#leaseMs / 3).unref() : undefined
  }

  async #findLost(): Promise<void> {
    const lost: string[] = []
    for (const id of this.#held.keys()) if ((await this.#rows.findOne({ id }))?.holder !== this.#holder) lost.push(id)
    this.#drop(lost)
  }

  #drop(ids: string[]): void {
    for (const id of ids) this.#held.delete(id)
    if (ids.length > 0) this.#onLost(ids)
  }
}
