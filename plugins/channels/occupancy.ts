import { LRUCache } from 'lru-cache'

export interface Room {
  count: number
  bytes: number
}

interface Entry extends Room {
  measuredAt: number
}

const MAX_KEYS = 10_000
/** A full queue is measured again at most this often: others may have emptied it. */
const REMEASURE_MS = 1000

/** How full the queues are, by key: counted in memory, measured in the store at first and when they seem full. */
export class Occupancy {
  readonly #measure: (key: string) => Promise<Room>
  readonly #limit: Room
  readonly #entries = new LRUCache<string, Promise<Entry>>({ max: MAX_KEYS })

  constructor(measure: (key: string) => Promise<Room>, limit: Room) {
    this.#measure = measure
    this.#limit = limit
  }

  /** Takes room, or resolves with false when there is none. What is not used in the end is given back by `release`. */
  async reserve(key: string, { count, bytes }: Room): Promise<boolean> {
    let entry = await this.#entry(key)
    if (!this.#fits(entry, count, bytes) && Date.now() - entry.measuredAt >= REMEASURE_MS) {
      this.#entries.delete(key)
      entry = await this.#entry(key)
    }
    if (!this.#fits(entry, count, bytes)) return false
    entry.count += count
    entry.bytes += bytes
    return true
  }

  /** Takes room beyond the limit, too. */
  async occupy(key: string, { count, bytes }: Room): Promise<void> {
    const entry = await this.#entry(key)
    entry.count += count
    entry.bytes += bytes
  }

  async release(key: string, { count, bytes }: Room): Promise<void> {
    const entry = await this.#entries.get(key)
    if (!entry) return
    entry.count = Math.max(0, entry.count - count)
    entry.bytes = Math.max(0, entry.bytes - bytes)
  }

  forget(key: string): void {
    this.#entries.delete(key)
  }

  #fits(entry: Entry, count: number, bytes: number): boolean {
    return entry.count + count <= this.#limit.count && entry.bytes + bytes <= this.#limit.bytes
  }

  #entry(key: string): Promise<Entry> {
    let entry = this.#entries.get(key)
    if (!entry) {
      entry = this.#measure(key).then(room => ({ ...room, measuredAt: Date.now() }))
      this.#entries.set(key, entry)
      entry.catch(() => this.#entries.delete(key))
    }
    return entry
  }
}
