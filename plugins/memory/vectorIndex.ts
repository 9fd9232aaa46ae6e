import { LRUCache } from 'lru-cache'
import type { Collection } from '../../core/store/collection.js'
import { EmbedderUnavailable, type Embedder } from './contract.js'
import type { Entry } from './entry.js'
import type { StoredVector } from './vectorRow.js'
import { capacityOf, type Hit, type VectorRow } from './vectorSpaces.js'
import type { VectorThread } from './vectorThread.js'

/** Entries looked at, and vectors read, at a time. */
const BATCH = 100
/** What an embedder gets at a time. */
const MAX_TEXTS = 32
/** Gateways' clocks differ: entries written this much before the newest known one are looked at again. */
const OVERLAP_MS = 60_000
const EMBED_TIMEOUT_MS = 60_000
/** A text that ended its process is tried again so seldom that the plugin is not given up for it. */
const REFUSED_MS = 600_000
/** As many as there can be entries in an index. */
const MAX_REFUSED = 5_000

interface IndexNeeds {
  thread: VectorThread
  entries: Collection<Entry>
  vectors: Collection<StoredVector>
  embedder: Embedder
  dimension: number
  /** What makes the vectors now; another one ends the work on this index. */
  current: () => Embedder | undefined
  /** Work on many owners' vectors takes turns. */
  inTurn: (work: () => Promise<void>) => Promise<void>
}

/** The thread has let go of the vectors: they have to be loaded again. */
class LetGo extends Error {
  constructor() {
    super('the vectors had to make room for others')
  }
}

/**
 * One owner's vectors of one embedder: stored beside the entries and held by the thread, which may let go of them at any
 * time. Both are brought up to date before a search: what has no vector gets one, the newest first.
 */
export class VectorIndex {
  readonly #needs: IndexNeeds
  readonly #space: string
  readonly #madeBy: string
  /** The newest `createdAt` seen; empty: nothing was loaded yet. */
  #newest = ''
  /** Entries of batches that failed are tried alone, and one that fails alone not again for a while. */
  readonly #suspects = new Set<string>()
  readonly #refused = new LRUCache<string, true>({ max: MAX_REFUSED, ttl: REFUSED_MS })
  #running: Promise<void> | undefined
  #next: Promise<void> | undefined

  constructor(space: string, needs: IndexNeeds) {
    this.#space = space
    this.#needs = needs
    this.#madeBy = `${needs.embedder.id} ${needs.dimension}`
  }

  /** Takes in everything that was written before the call. One at a time; those asked for meanwhile become one more. */
  refresh(): Promise<void> {
    if (!this.#running) return this.#run()
    this.#next ??= this.#running
      .catch(() => undefined)
      .then(() => {
        this.#next = undefined
        return this.#run()
      })
    return this.#next
  }

  /** `null`: the thread has let go of the vectors, so a refresh has to come first. */
  async search(vector: string, minSimilarity: number, limit: number): Promise<Hit[] | null> {
    const hits = await this.#needs.thread.run({ kind: 'search', space: this.#space, vector, minSimilarity, limit })
    if (hits === null) this.#newest = ''
    return hits
  }

  #run(): Promise<void> {
    this.#running = this.#needs
      .inTurn(() => this.#refresh())
      .finally(() => {
        this.#running = undefined
      })
    return this.#running
  }

  async #refresh(): Promise<void> {
    try {
      await this.#pass()
    } catch (error) {
      if (!(error instanceof LetGo)) throw error
      this.#newest = ''
      await this.#pass()
    }
  }

  async #pass(): Promise<void> {
    const { entries, dimension, vectors } = this.#needs
    if (this.#newest === '') await this.#load()
    const since = this.#newest === '' ? '' : new Date(Date.parse(this.#newest) - OVERLAP_MS).toISOString()
    let newest = this.#newest
    let oldest = ''
    let seen = 0
    const capacity = capacityOf(dimension)
    for (let cursor: string | null | undefined; cursor !== null && seen < capacity;) {
      const page = await entries.page({ createdAt: { $gte: since } }, { limit: BATCH, cursor, sort: { createdAt: -1 } })
      if (!(await this.#takeIn(page.items))) return
      seen += page.items.length
      for (const { createdAt } of page.items) if (createdAt > newest) newest = createdAt
      oldest = page.items.at(-1)?.createdAt ?? oldest
      cursor = page.nextCursor
    }
    // Only now: a refresh that failed half-way starts again from where the last whole one ended.
    this.#newest = newest
    if (since === '' && seen >= capacity) await vectors.deleteMany({ createdAt: { $lt: oldest } })
  }

  async #load(): Promise<void> {
    const { thread, vectors, dimension } = this.#needs
    await thread.run({ kind: 'open', space: this.#space, dimension })
    let loaded = 0
    for (let cursor: string | null | undefined; cursor !== null && loaded < capacityOf(dimension);) {
      const page = await vectors.page({ madeBy: this.#madeBy }, { limit: BATCH, cursor, sort: { createdAt: -1 } })
      await this.#add(page.items)
      loaded += page.items.length
      cursor = page.nextCursor
    }
  }

  /** False: another embedder is in use by now. */
  async #takeIn(entries: Entry[]): Promise<boolean> {
    const { thread, vectors } = this.#needs
    const missing = await thread.run({ kind: 'unknown', space: this.#space, ids: entries.map(({ id }) => id) })
    if (missing === null) throw new LetGo()
    if (missing.length === 0) return true
    // Another gateway may have made them.
    const stored = await vectors.find({ id: { $in: missing }, madeBy: this.#madeBy })
    await this.#add(stored)
    const known = new Set(stored.map(({ id }) => id))
    const wanted = new Set(missing.filter(id => !known.has(id) && !this.#refused.has(id)))
    for (const batch of this.#batches(entries.filter(({ id }) => wanted.has(id)))) {
      if (!(await this.#embed(batch))) return false
    }
    return true
  }

  #batches(entries: Entry[]): Entry[][] {
    const good = entries.filter(({ id }) => !this.#suspects.has(id))
    const batches = Array.from({ length: Math.ceil(good.length / MAX_TEXTS) }, (_, at) => good.slice(at * MAX_TEXTS, (at + 1) * MAX_TEXTS))
    return [...batches, ...entries.filter(({ id }) => this.#suspects.has(id)).map(entry => [entry])]
  }

  async #embed(entries: Entry[]): Promise<boolean> {
    const { embedder, current, vectors } = this.#needs
    const isCurrent = (): boolean => current()?.id === embedder.id
    if (!isCurrent()) return false
    const rows = await this.#vectorsOf(entries, isCurrent)
    if (!rows) return false
    await Promise.all(rows.map(({ id, ...row }) => vectors.updateOne({ id }, { $set: { ...row, madeBy: this.#madeBy } }, { upsert: true })))
    return true
  }

  async #vectorsOf(entries: Entry[], isCurrent: () => boolean): Promise<VectorRow[] | undefined> {
    const { embedder, dimension } = this.#needs
    const texts = entries.map(({ text }) => text)
    try {
      const made = await embedder.embed(texts, 'document', AbortSignal.timeout(EMBED_TIMEOUT_MS))
      // Another version may have answered.
      if (!isCurrent()) return undefined
      if (made.dimension !== dimension) throw new Error(`it makes vectors of ${made.dimension} and of ${dimension} dimensions`)
      const rows = entries.map(({ id, createdAt }, index) => ({ id, createdAt, vector: made.vectors[index] as string }))
      // The thread looks at the numbers, and refuses what is none.
      await this.#add(rows)
      return rows
    } catch (error) {
      if (error instanceof EmbedderUnavailable || error instanceof LetGo) throw error
      for (const { id } of entries) {
        if (entries.length === 1) this.#refused.set(id, true)
        else if (this.#suspects.size < MAX_REFUSED) this.#suspects.add(id)
      }
      throw error
    }
  }

  async #add(rows: VectorRow[]): Promise<void> {
    if (rows.length === 0) return
    const plain = rows.map(({ id, createdAt, vector }) => ({ id, createdAt, vector }))
    if ((await this.#needs.thread.run({ kind: 'add', space: this.#space, rows: plain })) === null) throw new LetGo()
  }
}
