import { serviceUnavailable } from './errors.js'
import type { Collection, Document, Owner } from './store/collection.js'
import type { IndexResults, IndexTask, Searchable, TextHit } from './textIndexes.js'
import { Thread } from './thread.js'

/** Entries read between two turns of the event loop, and handed to the thread at a time. */
const BATCH = 50
/** Gateways' clocks differ: entries written this much before the newest known one are looked at again. */
const OVERLAP_MS = 60_000
/** Without a search the thread ends; the next one makes its index anew. */
const IDLE_MS = 600_000
const MAX_HEAP_MB = 512
const RETRY_AFTER_SECONDS = 2

const keyOf = ({ tenant, userId }: Owner): string => JSON.stringify([tenant, userId])

/**
 * Finds candidates by full text. The index, in a thread of its own, is a cache of what the store holds: it is brought up
 * to date before each search, by whichever gateway the entries were written, and the caller reads the hits again from
 * the store.
 */
export class TextSearch<T extends Searchable & Document> {
  readonly #thread = new Thread<IndexTask>({
    worker: 'textSearch',
    name: 'the thread that searches texts',
    idleMs: IDLE_MS,
    maxHeapMb: MAX_HEAP_MB,
  })
  /** The last refresh of each owner's index that is under way: one at a time. */
  readonly #refreshing = new Map<string, Promise<void>>()

  /** Ids and scores, best first. */
  async candidates(owner: Owner, entries: Collection<T>, query: string, limit: number): Promise<TextHit[]> {
    const key = keyOf(owner)
    for (let attempt = 1; ; attempt += 1) {
      await this.#refreshed(key, entries)
      const hits = await this.#run({ kind: 'search', key, query, limit })
      if (hits) return hits
      // The thread let go of this index for those of others: it is made again, once.
      if (attempt === 2) throw serviceUnavailable('Too many searches are under way', RETRY_AFTER_SECONDS)
    }
  }

  /** Ends the thread. */
  close(): Promise<void> {
    return this.#thread.close()
  }

  async #refreshed(key: string, entries: Collection<T>): Promise<void> {
    const refreshed = (this.#refreshing.get(key) ?? Promise.resolve()).then(() => this.#refresh(key, entries))
    // A failed refresh is the failure of the search that asked for it, not of the next one.
    const settled = refreshed.catch(() => undefined)
    this.#refreshing.set(key, settled)
    try {
      await refreshed
    } finally {
      if (this.#refreshing.get(key) === settled) this.#refreshing.delete(key)
    }
  }

  async #refresh(key: string, entries: Collection<T>): Promise<void> {
    const newest = await this.#run({ kind: 'open', key })
    const since = newest === '' ? '' : new Date(Date.parse(newest) - OVERLAP_MS).toISOString()
    for (let cursor: string | null | undefined; cursor !== null;) {
      const page = await entries.page({ createdAt: { $gte: since } }, { limit: BATCH, cursor, sort: { createdAt: -1 } })
      const added = page.items.map(({ id, text, createdAt }) => ({ id, text, createdAt }))
      const hasRoom = await this.#run({ kind: 'add', key, entries: added })
      if (hasRoom === null) return
      cursor = hasRoom ? page.nextCursor : null
    }
    // Only now: a refresh that failed half-way starts again from where the last whole one ended.
    await this.#run({ kind: 'upToDate', key })
  }

  #run<K extends IndexTask['kind']>(task: IndexTask & { kind: K }): Promise<IndexResults[K]> {
    return this.#thread.run(task) as Promise<IndexResults[K]>
  }
}
