import { RateLimiterMemory, RateLimiterRedis } from 'rate-limiter-flexible'
import type { Limiter, LimiterOptions } from './cluster.js'
import type { RedisClient } from './redis.js'
import { within } from './within.js'

/** How long a request waits to be counted with the others; after it this gateway counts it for itself. */
const COUNT_LIMIT_MS = 500

interface Options extends LimiterOptions {
  client: RedisClient
  /** Keys are addresses, or what was typed as one: Redis gets to know none of them. */
  hash: (key: string) => string
}

/** Counts calls in Redis; where it is away, or answers late or not, in this process. */
export const redisLimiter = ({ client, hash, ...options }: Options): Limiter => {
  const limiter = new HashedLimiter({
    ...options,
    storeClient: impatient(client),
    useRedisPackage: true,
    rejectIfRedisNotReady: true,
    insuranceLimiter: new RateLimiterMemory(options),
  })
  limiter.hash = hash
  return limiter
}

class HashedLimiter extends RateLimiterRedis {
  hash = (key: string): string => key

  override getKey(key: string | number): string {
    return super.getKey(this.hash(String(key)))
  }
}

/** What the limiters use of the client. */
const impatient = (client: RedisClient) => ({
  get isReady() {
    return client.isReady
  },
  eval: (...args: Parameters<RedisClient['eval']>) => inTime(client.eval(...args)),
  del: (key: string) => inTime(client.del(key)),
  multi: () => {
    const multi = client.multi()
    const exec = multi.exec.bind(multi)
    return Object.assign(multi, { exec: (...args: Parameters<typeof exec>) => inTime(exec(...args)) })
  },
})

const inTime = <T>(counting: Promise<T>): Promise<T> =>
  within(COUNT_LIMIT_MS, counting, () => {
    throw new Error(`Redis did not count a call within ${String(COUNT_LIMIT_MS)} ms`)
  })
