import type { Lease } from '../../core/lease.js'

/** A document as stored. Its bytes and its text are files beside it, see `blobs.ts`. */
export interface DocumentRow {
  id: string
  name: string
  /** Lower case, with the dot; empty without one. */
  extension: string
  mimeType: string
  /** Bytes. */
  size: number
  version: number
  status: 'extracting' | 'ready' | 'failed'
  /** `builtin:<format>` or a plugin's id. */
  extractor: string | null
  /** Why it failed. */
  reason?: string
  /** What has to happen before it can be read. */
  waitsFor?: string
  /** The text goes on where what is kept of it ends. */
  truncated?: boolean
  title?: string
  createdAt: string
  updatedAt: string
}

/** A passage of a document's text, for search. */
export interface PassageRow {
  id: string
  documentId: string
  name: string
  text: string
  createdAt: string
}

/** Work to do: a document whose text has to be extracted. Its id is the document's. */
export interface JobRow {
  id: string
  tenant: string | null
  userId: string
  extension: string
  /** `waiting`: for a plugin that takes this extension to run; `removing`: the document is being deleted. */
  state: 'queued' | 'running' | 'waiting' | 'removing'
  /** Runs that were started and not taken back. */
  attempts: number
  /** Not to be started before. */
  dueAt: string
  /** Who works on it. */
  lease?: Lease
  /** Versions of plugins, `id@version`, that crashed on it. */
  refused?: string[]
  createdAt: string
}

/** Room for a document that is being stored. Its id is the document's. */
export interface ReservationRow {
  id: string
  /** Bytes. */
  size: number
  createdAt: string
  expiresAt: string
}
