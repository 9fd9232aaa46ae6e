import { LRUCache } from 'lru-cache'
import PQueue from 'p-queue'
import type { Log } from '../../core/log.js'
import type { Owner, ScopedHandle } from '../../core/store/collection.js'
import { EmbedderUnavailable, type Embedder } from './contract.js'
import type { Entry } from './entry.js'
import { VectorIndex } from './vectorIndex.js'
import type { StoredVector } from './vectorRow.js'
import type { Hit } from './vectorSpaces.js'
import { VectorThread } from './vectorThread.js'

/** How long a search waits for its own vector, and then for those of entries that have none yet. */
const QUERY_TIMEOUT_MS = 3_000
const CATCH_UP_MS = 2_000
/** Owners whose vectors are brought up to date at the same time, and owners whose index is known. */
const REFRESHES_AT_ONCE = 2
const MAX_INDEXES = 64
/** Queries that could not be embedded, and are not tried again for a while. */
const MAX_REFUSED = 1_000
const REFUSED_MS = 600_000
/** The same failure is logged once in this time. */
const QUIET_MS = 60_000

interface SemanticNeeds {
  entries: ScopedHandle<Entry>
  vectors: ScopedHandle<StoredVector>
  log: Log
}

/** Finds entries by what they mean, while there is something that makes vectors. What fails here leaves the full text search alone. */
export class SemanticSearch {
  readonly #needs: SemanticNeeds
  readonly #thread = new VectorThread()
  readonly #indexes = new LRUCache<string, VectorIndex>({ max: MAX_INDEXES })
  readonly #refused = new LRUCache<string, true>({ max: MAX_REFUSED, ttl: REFUSED_MS })
  readonly #refreshes = new PQueue({ concurrency: REFRESHES_AT_ONCE })
  #find: (() => Embedder | undefined) | undefined
  #quietUntil = 0

  constructor(needs: SemanticNeeds) {
    this.#needs = needs
  }

  /** `find` names what makes vectors now. One at a time; returns the undo. */
  use(find: () => Embedder | undefined): () => void {
    if (this.#find) throw new Error('Memory has a source of embedders already')
    this.#find = find
    return () => {
      this.#find = undefined
      this.#indexes.clear()
    }
  }

  /** Best first; nothing while there are no vectors, or when they cannot be made in time. */
  async candidates(owner: Owner, query: string, limit: number): Promise<Hit[]> {
    const embedder = this.#find?.()
    if (!embedder) return []
    try {
      return await this.#search(owner, embedder, query, limit)
    } catch (error) {
      this.#complain(embedder, error)
      return []
    }
  }

  async close(): Promise<void> {
    this.#refreshes.clear()
    await this.#thread.close()
  }

  async #search(owner: Owner, embedder: Embedder, query: string, limit: number): Promise<Hit[]> {
    const key = JSON.stringify([embedder.id, query])
    if (this.#refused.has(key)) return []
    const { vectors, dimension, minSimilarity } = await embedder
      .embed([query], 'query', AbortSignal.timeout(QUERY_TIMEOUT_MS))
      .catch((error: unknown) => {
        if (!(error instanceof EmbedderUnavailable)) this.#refused.set(key, true)
        throw error
      })
    const vector = vectors[0] as string
    const index = this.#index(owner, embedder, dimension)
    for (let attempt = 1; ; attempt += 1) {
      await this.#refreshed(index, embedder)
      const hits = await index.search(vector, minSimilarity, limit)
      if (hits) return hits
      // The thread had let go of this owner's vectors: they are read again, once.
      if (attempt === 2) return []
    }
  }

  #index(owner: Owner, embedder: Embedder, dimension: number): VectorIndex {
    const key = JSON.stringify([owner.tenant, owner.userId, embedder.id, dimension])
    let index = this.#indexes.get(key)
    if (!index) {
      const { entries, vectors } = this.#needs
      const needs = { thread: this.#thread, entries: entries.for(owner), vectors: vectors.for(owner), embedder, dimension }
      index = new VectorIndex(key, { ...needs, current: () => this.#find?.(), inTurn: work => this.#refreshes.add(work) })
      this.#indexes.set(key, index)
    }
    return index
  }

  /** Waits for a while; what takes longer goes on behind the search. */
  async #refreshed(index: VectorIndex, embedder: Embedder): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>(resolve => {
      timer = setTimeout(resolve, CATCH_UP_MS)
    })
    const refreshed = index.refresh().catch((error: unknown) => this.#complain(embedder, error))
    await Promise.race([refreshed, late])
    clearTimeout(timer)
  }

  #complain({ id }: Embedder, error: unknown): void {
    const now = Date.now()
    if (now < this.#quietUntil) return
    this.#quietUntil = now + QUIET_MS
    const reason = error instanceof Error ? error.message : String(error)
    this.#needs.log.warn({ embedder: id }, `memory is searched by its words alone: ${reason}`)
  }
}
