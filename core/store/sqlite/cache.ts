import { LRUCache } from 'lru-cache'

const maxBytes = 16 * 1024 * 1024
const maxEntryBytes = 256 * 1024
/** What an entry costs beside its text, roughly. */
const entryOverhead = 200

interface Entry {
  text: string
  generation: number
}

/** The texts of recently read documents, of all collections together. */
export type Texts = LRUCache<string, Entry>

export const createTexts = (): Texts =>
  new LRUCache({
    maxSize: maxBytes,
    maxEntrySize: maxEntryBytes,
    sizeCalculation: ({ text }, key) => 2 * (text.length + key.length) + entryOverhead,
  })

/**
 * One collection's cached documents. This process owns the store, so a text is current unless a write that could touch
 * its document is under way: then it is neither kept nor served.
 */
export class DocumentCache {
  readonly #texts: Texts
  readonly #prefix: string
  readonly #writingIds = new Map<string, number>()
  /** Writes under way that name no document. */
  #writingAny = 0
  #generation = 0

  constructor(texts: Texts, collection: string) {
    this.#texts = texts
    this.#prefix = `${collection}\0`
  }

  get(id: string): string | undefined {
    const entry = this.#texts.get(this.#prefix + id)
    return entry?.generation === this.#generation ? entry.text : undefined
  }

  keep(id: string, text: string): void {
    if (this.#writingAny > 0 || this.#writingIds.has(id)) return
    this.#texts.set(this.#prefix + id, { text, generation: this.#generation })
  }

  /** A write of these documents, or of unknown ones, starts. Call what it returns before the write's promise settles. */
  writing(ids?: string[]): () => void {
    if (!ids) {
      this.#generation++
      this.#writingAny++
      return () => {
        this.#writingAny--
      }
    }
    for (const id of ids) {
      this.#texts.delete(this.#prefix + id)
      this.#writingIds.set(id, (this.#writingIds.get(id) ?? 0) + 1)
    }
    return () => {
      for (const id of ids) this.#finish(id)
    }
  }

  #finish(id: string): void {
    const left = (this.#writingIds.get(id) ?? 1) - 1
    if (left === 0) this.#writingIds.delete(id)
    else this.#writingIds.set(id, left)
  }
}
