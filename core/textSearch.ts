import { LRUCache } from 'lru-cache'
import type MiniSearch from 'minisearch'
import type { Collection, Document, Owner } from './store/collection.js'

/** An owner's newest entries that are searched, by number and by characters of text; older ones are kept but not found. */
const MAX_INDEXED = 5_000
const MAX_INDEXED_CHARACTERS = 2_000_000
/** An index that grew by new entries to this many times its bound is made anew. */
const REBUILD_FACTOR = 2
/** Owners whose index stays in memory, and how many characters of text all of them may stand for. */
const MAX_OWNERS = 64
const MAX_CHARACTERS = 8_000_000
/** Entries read, and indexed between two turns of the event loop, at a time. */
const BATCH = 200
/** Gateways' clocks differ: entries written this much before the newest known one are looked at again. */
const OVERLAP_MS = 60_000

/** What can be searched. `createdAt` tells what is new. */
export interface Searchable extends Document {
  text: string
  createdAt: string
}

interface OwnerIndex {
  search: MiniSearch<Searchable>
  /** The newest `createdAt` seen. */
  newest: string
  characters: number
  /** One refresh at a time. */
  refreshing: Promise<void>
}

const keyOf = ({ tenant, userId }: Owner): string => JSON.stringify([tenant, userId])

/**
 * Finds candidates by full text. The index is a cache of what the store holds: it is brought up to date before each
 * search, by whichever gateway the entries were written, and the caller reads the hits again from the store.
 */
export class TextSearch<T extends Searchable> {
  readonly #indexes = new LRUCache<string, OwnerIndex>({
    max: MAX_OWNERS,
    maxSize: MAX_CHARACTERS,
    sizeCalculation: ({ characters }) => Math.max(1, characters),
  })

  /** Ids and scores, best first. */
  async candidates(owner: Owner, entries: Collection<T>, query: string, limit: number): Promise<{ id: string; score: number }[]> {
    const index = await this.#current(owner, entries)
    const found = index.search.search(query, { prefix: term => term.length > 3, fuzzy: term => (term.length > 4 ? 0.2 : false) })
    return found.slice(0, limit).map(hit => ({ id: hit.id as string, score: hit.score }))
  }

  async #current(owner: Owner, entries: Collection<T>): Promise<OwnerIndex> {
    const key = keyOf(owner)
    let index = this.#indexes.get(key)
    if (!index || exceeds(index, REBUILD_FACTOR)) {
      this.#indexes.delete(key)
      const { default: Index } = await import('minisearch')
      index = this.#indexes.get(key) ?? {
        search: new Index<Searchable>({ fields: ['text'] }),
        newest: '',
        characters: 0,
        refreshing: Promise.resolve(),
      }
      this.#indexes.set(key, index)
    }
    const current = index
    const refreshed = current.refreshing.then(() => refresh(current, entries))
    // A failed refresh is the failure of the search that asked for it, not of the next one.
    current.refreshing = refreshed.catch(() => undefined)
    await refreshed
    // Its size is taken anew, which the cache does for what is new to it.
    this.#indexes.delete(key)
    this.#indexes.set(key, current)
    return current
  }
}

const exceeds = ({ search, characters }: OwnerIndex, factor: number): boolean =>
  search.documentCount >= MAX_INDEXED * factor || characters >= MAX_INDEXED_CHARACTERS * factor

const refresh = async <T extends Searchable>(index: OwnerIndex, entries: Collection<T>): Promise<void> => {
  const since = index.newest === '' ? '' : new Date(Date.parse(index.newest) - OVERLAP_MS).toISOString()
  let newest = index.newest
  for (let cursor: string | null | undefined; cursor !== null;) {
    const page = await entries.page({ createdAt: { $gte: since } }, { limit: BATCH, cursor, sort: { createdAt: -1 } })
    const added = page.items.filter(({ id }) => !index.search.has(id))
    await index.search.addAllAsync(added, { chunkSize: BATCH })
    for (const { text, createdAt } of added) {
      index.characters += text.length
      if (createdAt > newest) newest = createdAt
    }
    cursor = exceeds(index, since === '' ? 1 : REBUILD_FACTOR) ? null : page.nextCursor
  }
  // Only now: a refresh that failed half-way starts again from where the last whole one ended.
  index.newest = newest
}
