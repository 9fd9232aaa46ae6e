import type { RedisLink } from './redis.js'
import { BEAT, BURY } from './scripts.js'

interface Parts {
  id: string
  link: RedisLink
  /** The sorted set of leases. */
  key: string
  leaseMs: number
  /** Redis does not know this gateway: its lease ran out, or Redis forgot everything. */
  onUnknown: () => void
  onLiving: (gateways: ReadonlySet<string>) => void
  /** Frees what a dead gateway held. */
  free: (gateway: string) => Promise<void>
  onRenewed: () => void
  onFailed: (error: unknown) => void
}

/** Which gateways are alive: each renews a lease, and is dead when it ran out. */
export class Gateways {
  readonly #parts: Parts
  readonly #timer: NodeJS.Timeout
  #living: ReadonlySet<string>
  #beating: Promise<void> | undefined

  constructor(parts: Parts) {
    this.#parts = parts
    this.#living = new Set([parts.id])
    this.#timer = setInterval(() => void this.beat(), parts.leaseMs / 4).unref()
  }

  get count(): number {
    return this.#living.size
  }

  /** Renews the lease and looks who else is there. Never rejects. */
  beat(): Promise<void> {
    this.#beating ??= this.#beat()
      .catch(this.#parts.onFailed)
      .finally(() => (this.#beating = undefined))
    return this.#beating
  }

  /** One that is not known is looked for once. */
  async isAlive(gateway: string): Promise<boolean> {
    if (!this.#living.has(gateway)) await this.beat()
    return this.#living.has(gateway)
  }

  /** Ends the lease. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    const { link, key, id } = this.#parts
    if (link.isReady) await link.commands.zRem(key, id)
  }

  async #beat(): Promise<void> {
    const { link, key, id, leaseMs, onUnknown, onLiving, onRenewed, free } = this.#parts
    if (!link.isReady) return
    const [known, living, dead] = (await link.run(BEAT, [key], [id, String(leaseMs)])) as [number, string[], string[]]
    onRenewed()
    this.#living = new Set(living)
    if (known !== 1) onUnknown()
    onLiving(this.#living)
    for (const gateway of dead) {
      await free(gateway)
      await link.run(BURY, [key], [gateway])
    }
  }
}
