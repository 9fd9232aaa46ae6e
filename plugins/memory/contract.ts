import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

/** The longest text that one entry holds, in characters. */
export const MAX_ENTRY_LENGTH = 8_000

export interface MemoryHit {
  id: string
  text: string
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

export interface Memory {
  /** Keeps a text; resolves with its `mem_` id once it is on disk. `validation_failed` when it is blank or too long. */
  remember(owner: Owner, text: string, options?: RememberOptions): Promise<{ id: string }>
  /** The owner's entries that match best, best first; `limit` is at most 50. */
  search(owner: Owner, query: string, limit: number): Promise<MemoryHit[]>
}

export const memory = service<Memory>('memory')
