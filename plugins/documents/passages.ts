import { newId } from '../../core/id.js'
import type { ScopedHandle, Owner } from '../../core/store/collection.js'
import { TextSearch } from '../../core/textSearch.js'
import type { DocumentHit } from './contract.js'
import type { DocumentRow, PassageRow } from './rows.js'

/** Characters of a passage, and passages of one document that can be found; text beyond them is kept and not searched. */
const PASSAGE_LENGTH = 1_000
const MAX_PASSAGES = 1_000
const INSERT_BATCH = 200
const SHOWN_LENGTH = 500
const SPARE_CANDIDATES = 20

/** The searchable passages of documents. */
export class Passages {
  readonly #rows: ScopedHandle<PassageRow>
  readonly #search = new TextSearch<PassageRow>()

  constructor(rows: ScopedHandle<PassageRow>) {
    this.#rows = rows
  }

  /** Replaces the document's passages by those of this text. */
  async index(owner: Owner, { id, name }: DocumentRow, text: string): Promise<void> {
    await this.remove(owner, id)
    const createdAt = new Date().toISOString()
    const passages = split(text).map(passage => ({ id: newId('psg'), documentId: id, name, text: passage, createdAt }))
    for (let at = 0; at < passages.length; at += INSERT_BATCH) await this.#rows.for(owner).insertMany(passages.slice(at, at + INSERT_BATCH))
  }

  async remove(owner: Owner, documentId: string): Promise<void> {
    await this.#rows.for(owner).deleteMany({ documentId })
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

/** Cuts at the ends of paragraphs, lines or words, whichever comes last in a passage. */
const split = (text: string): string[] => {
  const passages: string[] = []
  for (let at = 0; at < text.length && passages.length < MAX_PASSAGES;) {
    const window = text.slice(at, at + PASSAGE_LENGTH)
    const cut =
      window.length < PASSAGE_LENGTH
        ? window.length
        : [window.lastIndexOf('\n\n'), window.lastIndexOf('\n'), window.lastIndexOf(' ')].find(end => end > PASSAGE_LENGTH / 2)
    const passage = window.slice(0, cut).trim()
    if (passage !== '') passages.push(passage)
    at += cut ?? window.length
  }
  return passages
}
