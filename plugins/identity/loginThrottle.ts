import { LRUCache } from 'lru-cache'
import { RateLimiterMemory } from 'rate-limiter-flexible'
import { rateLimited } from '../../core/errors.js'

/**
 * Failures allowed in a window that starts with the first. Attempts refused meanwhile do not count, so every block
 * ends by itself within its window, whatever an attacker does.
 */
export const failureLimits = {
  /** One account from one network. */
  burst: { points: 5, duration: 60 },
  sustained: { points: 30, duration: 15 * 60 },
  /** One account from everywhere that it has not been used from before: strangers cannot shut its owner out. */
  strangers: { points: 50, duration: 15 * 60 },
  /** Any accounts from one network. */
  network: { points: 60, duration: 15 * 60 },
}

/** Distinct keys remembered by each limit; beyond it the ones longest unused are forgotten. */
const MAX_KEYS = 20_000

export interface Attempt {
  /** Normalised. */
  email: string
  network: string
  /** The account has been logged in to from this network before. */
  familiar: boolean
}

class FailureLimit {
  readonly #limiter: RateLimiterMemory
  readonly #keys = new LRUCache<string, true>({
    max: MAX_KEYS,
    dispose: (_, key, reason) => void (reason === 'evict' && this.#limiter.delete(key)),
  })

  constructor(options: { points: number; duration: number }) {
    this.#limiter = new RateLimiterMemory(options)
  }

  /** Milliseconds until the key may try again; 0: now. */
  async waitMs(key: string): Promise<number> {
    const state = await this.#limiter.get(key)
    return state && state.consumedPoints >= this.#limiter.points ? state.msBeforeNext : 0
  }

  async count(key: string): Promise<void> {
    this.#keys.set(key, true)
    await this.#limiter.penalty(key)
  }

  async forget(key: string): Promise<void> {
    this.#keys.delete(key)
    await this.#limiter.delete(key)
  }
}

/** Slows down repeated failed logins, per account and per network. Not part of the configurable rate limits: it is never off. */
export class LoginThrottle {
  readonly #burst: FailureLimit
  readonly #sustained: FailureLimit
  readonly #strangers: FailureLimit
  readonly #network: FailureLimit

  constructor({ burst, sustained, strangers, network }: typeof failureLimits = failureLimits) {
    this.#burst = new FailureLimit(burst)
    this.#sustained = new FailureLimit(sustained)
    this.#strangers = new FailureLimit(strangers)
    this.#network = new FailureLimit(network)
  }

  /** Rejects with `rate_limited` and `Retry-After` while the attempt has to wait. The same for accounts that do not exist. */
  async check(attempt: Attempt): Promise<void> {
    const waits = await Promise.all(this.#countersOf(attempt).map(([limit, key]) => limit.waitMs(key)))
    const waitMs = Math.max(...waits)
    if (waitMs > 0) throw rateLimited(Math.max(1, Math.ceil(waitMs / 1000)), 'Too many failed logins')
  }

  async failed(attempt: Attempt): Promise<void> {
    await Promise.all(this.#countersOf(attempt).map(([limit, key]) => limit.count(key)))
  }

  /** Forgets this account's failures from this network; those of its neighbours and of strangers stay counted. */
  async succeeded(attempt: Attempt): Promise<void> {
    const key = pairKey(attempt)
    await Promise.all([this.#burst.forget(key), this.#sustained.forget(key)])
  }

  #countersOf(attempt: Attempt): [FailureLimit, string][] {
    const pair = pairKey(attempt)
    return [
      [this.#burst, pair],
      [this.#sustained, pair],
      [this.#network, attempt.network],
      ...(attempt.familiar ? [] : ([[this.#strangers, attempt.email]] as [FailureLimit, string][])),
    ]
  }
}

const pairKey = ({ email, network }: Attempt): string => `${network} ${email}`
