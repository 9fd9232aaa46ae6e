import { LRUCache } from 'lru-cache'
import type { Limiter, LimiterOptions } from './cluster/cluster.js'

/** Distinct keys remembered by each limit; beyond it the ones longest unused are forgotten. */
const MAX_KEYS = 20_000

/**
 * Failures allowed for each key in a window that starts with the first, over all gateways where there are several. What
 * is refused meanwhile does not count, so every block ends by itself within its window.
 */
export class FailureLimit {
  readonly points: number
  readonly #limiter: Limiter
  readonly #keys = new LRUCache<string, true>({
    // Not `max`, which takes all places at once: milliseconds of the start, for each limit.
    maxSize: MAX_KEYS,
    sizeCalculation: () => 1,
    dispose: (_, key, reason) => void (reason === 'evict' && this.#limiter.delete(key)),
  })

  /** `duration` in seconds. `create` makes the counter: a cluster's `limiter`. */
  constructor(create: (options: LimiterOptions) => Limiter, options: LimiterOptions) {
    this.points = options.points
    this.#limiter = create(options)
  }

  /** Milliseconds until the key may try again; 0: now. */
  async waitMs(key: string): Promise<number> {
    const state = await this.#limiter.get(key)
    return state && state.consumedPoints >= this.points ? state.msBeforeNext : 0
  }

  /** Counts one. Milliseconds to wait when it was one too many, else 0. */
  async count(key: string): Promise<number> {
    this.#keys.set(key, true)
    const { consumedPoints, msBeforeNext } = await this.#limiter.penalty(key)
    return consumedPoints > this.points ? msBeforeNext : 0
  }

  async forget(key: string): Promise<void> {
    this.#keys.delete(key)
    await this.#limiter.delete(key)
  }
}
