import { RateLimiterMemory, RateLimiterRes } from 'rate-limiter-flexible'
import type { Limiter, LimiterOptions } from '../cluster/cluster.js'
import { setting, type Config, type SettingValue } from '../config.js'
import { rateLimited } from '../errors.js'
import type { Caller } from './caller.js'
import { networkOf } from './network.js'
import type { LimitCategory } from './route.js'

type Counted = Exclude<LimitCategory, 'none'>

/** Calls a minute for each caller; 0 turns a category off. The first five are the specification's. */
const defaults: Record<Counted, { name: string; perMinute: number }> = {
  read: { name: 'Read', perMinute: 120 },
  write: { name: 'Write', perMinute: 60 },
  decision: { name: 'Decision', perMinute: 30 },
  expensive: { name: 'Expensive', perMinute: 10 },
  chat: { name: 'Chat', perMinute: 60 },
  /** For each webhook: a busy group's messages, each a delivery of its own. */
  webhook: { name: 'Webhook', perMinute: 1200 },
  /** For each node: polling every 2 s is 30 a minute, results and progress beside it. */
  node: { name: 'Node', perMinute: 600 },
}

const WINDOW_SECONDS = 60
/** Distinct callers counted apart in a window; those beyond it share one count, so a flood of addresses costs no memory. */
const MAX_KEYS = 50_000
const SHARED_KEY = '*'

/** The key that a caller's calls count under: each API token and each node on its own, users over all their sessions. */
export const limitKeyOf = (caller: Caller, address: string): string => {
  if (caller.kind === 'anonymous') return `address:${networkOf(address)}`
  const { kind, id } = caller.credential
  return kind === 'token' || kind === 'node' ? `${kind}:${id}` : `user:${caller.userId}`
}

export type CreateLimiter = (options: LimiterOptions) => Limiter

/** Counts calls by category and caller, each category with its own limit. */
export class RateLimits {
  readonly #limits = new Map<Counted, { setting: SettingValue<number>; limiter: Limiter | undefined }>()
  readonly #undo: (() => void)[] = []
  #create: CreateLimiter = options => new RateLimiterMemory(options)
  #keys = new Set<string>()
  #windowEnds = 0

  constructor(config: Config) {
    for (const [category, { name, perMinute }] of Object.entries(defaults) as [Counted, { name: string; perMinute: number }][]) {
      const bound = config.bind(setting.number(`Service:RateLimits:${name}`, { default: perMinute, hot: true, integer: true }))
      const limit = { setting: bound, limiter: this.#limiter(category, bound.get()) }
      this.#limits.set(category, limit)
      this.#undo.push(bound.onChange(value => (limit.limiter = this.#limiter(category, value))))
    }
  }

  /** Counts with other limiters from now on: those that several gateways share. */
  countWith(create: CreateLimiter): void {
    this.#create = create
    for (const [category, limit] of this.#limits) limit.limiter = this.#limiter(category, limit.setting.get())
  }

  /** Counts one call; rejects with `rate_limited` and `Retry-After` when there were too many. `undefined`: nothing to wait for. */
  spend(category: LimitCategory, key: string): Promise<void> | undefined {
    const limiter = category === 'none' ? undefined : this.#limits.get(category)?.limiter
    return limiter && this.#consume(limiter, category, key)
  }

  async #consume(limiter: Limiter, category: LimitCategory, key: string): Promise<void> {
    try {
      await limiter.consume(this.#bounded(key))
    } catch (refusal) {
      if (!(refusal instanceof RateLimiterRes)) throw refusal
      throw rateLimited(
        Math.max(1, Math.ceil(refusal.msBeforeNext / 1000)),
        `More than ${limiter.points} calls a minute of the kind "${category}"`,
      )
    }
  }

  close(): void {
    for (const undo of this.#undo) undo()
  }

  #limiter(keyPrefix: Counted, points: number): Limiter | undefined {
    return points === 0 ? undefined : this.#create({ keyPrefix, points, duration: WINDOW_SECONDS })
  }

  #bounded(key: string): string {
    const now = Date.now()
    if (now > this.#windowEnds) {
      this.#windowEnds = now + WINDOW_SECONDS * 1000
      this.#keys = new Set()
    }
    if (this.#keys.has(key)) return key
    if (this.#keys.size >= MAX_KEYS) return SHARED_KEY
    this.#keys.add(key)
    return key
  }
}
