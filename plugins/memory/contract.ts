import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export interface MemoryHit {
  id: string
  text: string
  score: number
  createdAt: string
}

export interface Memory {
  /** Keeps a text; resolves with its `mem_` id once it is on disk. */
  remember(owner: Owner, text: string): Promise<{ id: string }>
  /** The owner's entries that match best, best first. */
  search(owner: Owner, query: string, limit: number): Promise<MemoryHit[]>
}

export const memory = service<Memory>('memory')
