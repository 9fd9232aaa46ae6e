import { LRUCache } from 'lru-cache'
import { rateLimited } from '../../core/errors.js'

/** Wrong slugs that one address may call in a window before it is told to wait. */
export const MAX_GUESSES = 30
const WINDOW_MS = 60_000
/** Addresses counted apart; beyond it the longest silent one is forgotten. */
const MAX_ADDRESSES = 10_000

/**
 * Counts calls of slugs that name nothing, by address. Only such calls are refused: a platform that still posts to a
 * deleted webhook does not lose its others.
 */
export class Guesses {
  readonly #counts = new LRUCache<string, { count: number }>({ max: MAX_ADDRESSES, ttl: WINDOW_MS })

  /** Counts one wrong slug. Throws `rate_limited` for an address with too many in the last minute. */
  count(address: string): void {
    const entry = this.#counts.get(address)
    if (!entry) {
      this.#counts.set(address, { count: 1 })
      return
    }
    entry.count += 1
    if (entry.count <= MAX_GUESSES) return
    throw rateLimited(
      Math.max(1, Math.ceil(this.#counts.getRemainingTTL(address) / 1000)),
      'Too many calls of webhook URLs that do not exist',
    )
  }
}
