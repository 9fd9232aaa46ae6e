import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export interface DocumentHit {
  documentId: string
  name: string
  /** A passage of the text around the match, at most 500 characters. */
  passage: string
  score: number
}

export interface Documents {
  /** Passages of the owner's documents that match the query best, best first. */
  search(owner: Owner, query: string, limit: number): Promise<DocumentHit[]>
  /** The extracted text, up to so many characters of its beginning; `null` when there is none. `not_found` for a foreign id. */
  text(owner: Owner, id: string, maxLength: number): Promise<{ name: string; text: string | null }>
}

export const documents = service<Documents>('documents')
