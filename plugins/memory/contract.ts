import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

/** The longest text that one entry holds, in characters. */
export const MAX_ENTRY_LENGTH = 8_000

export interface MemoryHit {
  id: string
  text: string
  /** The higher the better, among the hits of one search. */
  score: number
  createdAt: string
}

export interface RememberOptions {
  /** Where the text comes from, kept with it. */
  agentId?: string
  sessionId?: string
  /** The same key twice is one entry: its id is returned again. */
  idempotencyKey?: string
}

/** What makes vectors of texts, so that they are found by what they mean. */
export interface Embedder {
  /** Names the way in which it makes them: vectors of two ids cannot be compared, and are made anew. */
  readonly id: string
  /**
   * One vector for each of at most 32 texts: base64 of little-endian 32-bit floats, all of one dimension of at most
   * 4,096. `minSimilarity`: the cosine from which on two texts have something to do with each other. Rejects with
   * `EmbedderUnavailable`, or with an error whose message says what went wrong: these texts are not tried again for a while.
   */
  embed(
    texts: string[],
    purpose: 'query' | 'document',
    signal: AbortSignal,
  ): Promise<{ vectors: string[]; dimension: number; minSimilarity: number }>
}

/** There are no vectors now, which says nothing about the texts. */
export class EmbedderUnavailable extends Error {}

export interface Memory {
  /** Keeps a text; resolves with its `mem_` id once it is on disk. `validation_failed` when it is blank or too long. */
  remember(owner: Owner, text: string, options?: RememberOptions): Promise<{ id: string }>
  /** The owner's entries that match best, best first; `limit` is at most 50. */
  search(owner: Owner, query: string, limit: number): Promise<MemoryHit[]>
  /**
   * From now on entries are found by what they mean too, while `find` names something that makes vectors. Entries get
   * their vectors when they are searched. One source at a time; returns the undo.
   */
  embedBy(find: () => Embedder | undefined): () => void
}

export const memory = service<Memory>('memory')
