import { newId } from '../../core/id.js'
import type { ScopedHandle, Owner } from '../../core/store/collection.js'
import { TextSearch } from '../../core/textSearch.js'
import type { DocumentHit } from './contract.js'
import type { DocumentRow, PassageRow } from './rows.js'

/** Written between two turns of the event loop. */
const INSERT_BATCH = 50
const SHOWN_LENGTH = 500
const SPARE_CANDIDATES = 20

/** The searchable passages of documents. */
export class Passages {
  readonly #rows: ScopedHandle<PassageRow>
  readonly #search = new TextSearch<PassageRow>()

  constructor(rows: ScopedHandle<PassageRow>) {
    this.#rows = rows
  }

  /** Replaces the document's passages by these. */
  async index(owner: Owner, { id, name }: DocumentRow, texts: readonly string[]): Promise<void> {
    await this.remove(owner, id)
    const createdAt = new Date().toISOString()
    for (let at = 0; at < texts.length; at += INSERT_BATCH) {
      const passages = texts.slice(at, at + INSERT_BATCH).map(text => ({ id: newId('psg'), documentId: id, name, text, createdAt }))
      await this.#rows.for(owner).insertMany(passages)
    }
  }

  async remove(owner: Owner, documentId: string): Promise<void> {
    await this.#rows.for(owner).deleteMany({ documentId })
  }

  close(): Promise<void> {
    return this.#search.close()
  }

  /** One hit a document, its best passage, best first. */
  async search(owner: Owner, query: string, limit: number): Promise<DocumentHit[]> {
    const rows = this.#rows.for(owner)
    const candidates = await this.#search.candidates(owner, rows, query, limit * 3 + SPARE_CANDIDATES)
    const found = new Map((await rows.find({ id: { $in: candidates.map(({ id }) => id) } })).map(row => [row.id, row]))
    const hits = new Map<string, DocumentHit>()
    for (const { id, score } of candidates) {
      const row = found.get(id)
      if (!row || hits.has(row.documentId)) continue
      hits.set(row.documentId, { documentId: row.documentId, name: row.name, passage: row.text.slice(0, SHOWN_LENGTH), score })
    }
    return [...hits.values()].slice(0, limit)
  }
}
