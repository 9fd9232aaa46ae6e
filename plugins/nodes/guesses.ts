import { LRUCache } from 'lru-cache'
import { rateLimited } from '../../core/errors.js'
import { networkOf } from '../../core/http/network.js'

const WINDOW_MS = 60_000
/** Wrong secrets for one node from one address, before that address has to wait with this node. */
export const MAX_GUESSES_PER_NODE = 10
/** Wrong secrets from one address for any nodes; beyond it wrong ones are told to wait. A right one never is. */
export const MAX_GUESSES_PER_ADDRESS = 60
/** Counts kept apart; beyond it the one longest unused is forgotten. */
const MAX_COUNTS = 20_000

/**
 * Slows the guessing of secrets down, counted by network. A node that knows its secret never guesses, so however often it
 * shows it, it is not refused.
 */
export class Guesses {
  readonly #message: string
  readonly #counts = new LRUCache<string, { count: number }>({ max: MAX_COUNTS, ttl: WINDOW_MS })

  /** `message` is what a network is told that guessed too often. */
  constructor(message: string) {
    this.#message = message
  }

  /** Throws `rate_limited` for an address that has guessed at this node too often in the last minute. */
  check(address: string, nodeId: string): void {
    const key = `${networkOf(address)} ${nodeId}`
    if ((this.#counts.get(key)?.count ?? 0) >= MAX_GUESSES_PER_NODE) this.#refuse(key)
  }

  /** Counts a wrong secret. Throws `rate_limited` when the address has too many. */
  count(address: string, nodeId: string): void {
    const network = networkOf(address)
    this.#add(`${network} ${nodeId}`)
    if (this.#add(network) > MAX_GUESSES_PER_ADDRESS) this.#refuse(network)
  }

  #add(key: string): number {
    const entry = this.#counts.get(key) ?? { count: 0 }
    // Set once, so that the window starts with the first and ends by itself.
    if (entry.count === 0) this.#counts.set(key, entry)
    entry.count += 1
    return entry.count
  }

  #refuse(key: string): never {
    throw rateLimited(Math.max(1, Math.ceil(this.#counts.getRemainingTTL(key) / 1000)), this.#message)
  }
}
