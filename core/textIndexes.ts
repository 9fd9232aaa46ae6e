import { LRUCache } from 'lru-cache'
import MiniSearch from 'minisearch'

/** An owner's newest entries that are searched, by number and by characters of text; older ones are kept but not found. */
const MAX_INDEXED = 5_000
const MAX_INDEXED_CHARACTERS = 2_000_000
/** An index that grew by new entries to this many times its bound is made anew. */
const REBUILD_FACTOR = 2
/** Owners whose index stays in memory, and how many characters of text all of them may stand for. */
const MAX_OWNERS = 64
const MAX_CHARACTERS = 8_000_000

/** What can be searched. `createdAt` tells what is new. */
export interface Searchable {
  id: string
  text: string
  createdAt: string
}

export interface TextHit {
  id: string
  score: number
}

/** One step of keeping an owner's index up to date, or a search in it. */
export type IndexTask =
  | { kind: 'open'; key: string }
  | { kind: 'add'; key: string; entries: Searchable[] }
  | { kind: 'upToDate'; key: string }
  | { kind: 'search'; key: string; query: string; limit: number }

export interface IndexResults {
  /** The newest `createdAt` that the index is complete up to; empty for one that is new. */
  open: string
  /** Whether there is room for older entries; `null`: the index was let go of meanwhile. */
  add: boolean | null
  upToDate: null
  /** Best first; `null`: the index was let go of meanwhile. */
  search: TextHit[] | null
}

interface OwnerIndex {
  search: MiniSearch<Searchable>
  /** Complete up to here. */
  newest: string
  newestAdded: string
  characters: number
}

const exceeds = ({ search, characters }: OwnerIndex, factor: number): boolean =>
  search.documentCount >= MAX_INDEXED * factor || characters >= MAX_INDEXED_CHARACTERS * factor

/** The full text indexes of owners, in a worker thread: indexing a long text, and a search in it, take tens of milliseconds. */
export class TextIndexes {
  readonly #indexes = new LRUCache<string, OwnerIndex>({
    max: MAX_OWNERS,
    maxSize: MAX_CHARACTERS,
    sizeCalculation: ({ characters }) => Math.max(1, characters),
  })

  run(task: IndexTask): IndexResults[IndexTask['kind']] {
    if (task.kind === 'open') return this.#open(task.key)
    const index = this.#indexes.get(task.key)
    if (!index) return null
    if (task.kind === 'add') return this.#add(task.key, index, task.entries)
    if (task.kind === 'search') return search(index, task.query, task.limit)
    index.newest = index.newestAdded
    return null
  }

  #open(key: string): string {
    const known = this.#indexes.get(key)
    if (known && !exceeds(known, REBUILD_FACTOR)) return known.newest
    this.#indexes.set(key, { search: new MiniSearch<Searchable>({ fields: ['text'] }), newest: '', newestAdded: '', characters: 0 })
    return ''
  }

  #add(key: string, index: OwnerIndex, entries: Searchable[]): boolean {
    const added = entries.filter(({ id }) => !index.search.has(id))
    index.search.addAll(added)
    for (const { text, createdAt } of added) {
      index.characters += text.length
      if (createdAt > index.newestAdded) index.newestAdded = createdAt
    }
    // Its size is taken anew, which the cache does for what is new to it.
    this.#indexes.delete(key)
    this.#indexes.set(key, index)
    return !exceeds(index, index.newest === '' ? 1 : REBUILD_FACTOR)
  }
}

const search = ({ search: index }: OwnerIndex, query: string, limit: number): TextHit[] =>
  index
    .search(query, { prefix: term => term.length > 3, fuzzy: term => (term.length > 4 ? 0.2 : false) })
    .slice(0, limit)
    .map(({ id, score }) => ({ id: id as string, score }))
