import { validationFailed } from '../../core/errors.js'
import { newId } from '../../core/id.js'
import { DuplicateKey, type Owner, type ScopedHandle } from '../../core/store/collection.js'
import { MAX_ENTRY_LENGTH, type Embedder, type Memory, type MemoryHit, type RememberOptions } from './contract.js'
import type { Entry } from './entry.js'
import { TextSearch } from '../../core/textSearch.js'
import { fuse } from './fuse.js'
import type { SemanticSearch } from './semanticSearch.js'

const MAX_HITS = 50
/** Candidates asked for beyond the limit, since some may have been removed or superseded meanwhile. */
const SPARE_CANDIDATES = 20

/** What a user's agents remember. */
export class MemoryService implements Memory {
  readonly #entries: ScopedHandle<Entry>
  readonly #search = new TextSearch<Entry>()
  readonly #semantic: SemanticSearch

  constructor(entries: ScopedHandle<Entry>, semantic: SemanticSearch) {
    this.#entries = entries
    this.#semantic = semantic
  }

  close(): Promise<void> {
    return this.#search.close()
  }

  embedBy(find: () => Embedder | undefined): () => void {
    return this.#semantic.use(find)
  }

  async remember(owner: Owner, text: string, options: RememberOptions = {}): Promise<{ id: string }> {
    const trimmed = text.trim()
    if (trimmed === '') throw validationFailed([{ path: 'text', message: 'is blank: say what to remember' }])
    if (trimmed.length > MAX_ENTRY_LENGTH)
      throw validationFailed([{ path: 'text', message: `is longer than ${MAX_ENTRY_LENGTH} characters: split it` }])
    const now = new Date().toISOString()
    const entry: Entry = { id: newId('mem'), scope: 'user', text: trimmed, ...options, createdAt: now, updatedAt: now }
    const entries = this.#entries.for(owner)
    try {
      await entries.insertOne(entry)
      return { id: entry.id }
    } catch (error) {
      const { idempotencyKey } = options
      if (!(error instanceof DuplicateKey) || idempotencyKey === undefined) throw error
      const existing = await entries.findOne({ idempotencyKey })
      if (!existing) throw error
      return { id: existing.id }
    }
  }

  async search(owner: Owner, query: string, limit: number): Promise<MemoryHit[]> {
    const entries = this.#entries.for(owner)
    const wanted = Math.max(1, Math.min(MAX_HITS, Math.trunc(limit)))
    const limited = wanted + SPARE_CANDIDATES
    const [byWords, byMeaning] = await Promise.all([
      this.#search.candidates(owner, entries, query, limited),
      this.#semantic.candidates(owner, query, limited),
    ])
    const candidates = fuse(byWords, byMeaning)
    if (candidates.length === 0) return []
    const found = await entries.find({ id: { $in: candidates.map(({ id }) => id) }, supersededBy: { $exists: false } })
    const byId = new Map(found.map(entry => [entry.id, entry]))
    return candidates
      .flatMap(({ id, score }) => {
        const entry = byId.get(id)
        return entry ? [{ id, text: entry.text, score, createdAt: entry.createdAt }] : []
      })
      .slice(0, wanted)
  }
}
