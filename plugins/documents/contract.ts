import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export interface DocumentHit {
  documentId: string
  name: string
  /** A passage of the text around the match, at most 500 characters. */
  passage: string
  score: number
}

export interface NewDocument {
  /** With its extension. */
  name: string
  mimeType: string
  bytes: Buffer
}

export interface Documents {
  /**
   * Keeps a file of the owner's, as an upload does; once it resolves it survives a crash. Rejects with `payload_too_large` or
   * `conflict` over the owner's quota, with `service_unavailable` while the disk is full.
   */
  add(owner: Owner, document: NewDocument): Promise<{ id: string; name: string; mimeType: string; size: number }>
  /** Passages of the owner's documents that match the query best, best first. */
  search(owner: Owner, query: string, limit: number): Promise<DocumentHit[]>
  /** The extracted text, up to so many characters of its beginning; `null` when there is none. `not_found` for a foreign id. */
  text(owner: Owner, id: string, maxLength: number): Promise<{ name: string; text: string | null }>
}

export const documents = service<Documents>('documents')
