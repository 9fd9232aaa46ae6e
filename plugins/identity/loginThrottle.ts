import type { Cluster } from '../../core/cluster/cluster.js'
import { rateLimited } from '../../core/errors.js'
import { FailureLimit } from '../../core/failureLimit.js'

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

export interface Attempt {
  /** Normalised. */
  email: string
  network: string
  /** The account has been logged in to from this network before. */
  familiar: boolean
}

/** Slows down repeated failed logins, per account and per network. Not part of the configurable rate limits: it is never off. */
export class LoginThrottle {
  readonly #burst: FailureLimit
  readonly #sustained: FailureLimit
  readonly #strangers: FailureLimit
  readonly #network: FailureLimit

  constructor(create: Cluster['limiter'], { burst, sustained, strangers, network }: typeof failureLimits = failureLimits) {
    this.#burst = new FailureLimit(create, { keyPrefix: 'login-burst', ...burst })
    this.#sustained = new FailureLimit(create, { keyPrefix: 'login-sustained', ...sustained })
    this.#strangers = new FailureLimit(create, { keyPrefix: 'login-strangers', ...strangers })
    this.#network = new FailureLimit(create, { keyPrefix: 'login-network', ...network })
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
