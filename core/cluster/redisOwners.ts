import { LRUCache } from 'lru-cache'
import type { Log } from '../log.js'
import type { OwnedEntry, Owners, OwnersOptions } from './cluster.js'
import { LastingFault } from './lastingFault.js'
import type { RedisLink } from './redis.js'
import { CLAIM, FREE, RELEASE, TOUCH } from './scripts.js'
import { within } from './within.js'

/** How old an answer about who holds something may be, in milliseconds; while Redis is away, the last one. That nobody does is asked anew. */
const KNOWN_MS = 3_000
const MAX_KNOWN = 20_000
const BATCH = 250
/** Changed information goes out together this often. */
const TOUCH_MS = 1_000
/** After Redis refused. */
const AGAIN_MS = 5_000

interface Parts {
  id: string
  link: RedisLink
  now: () => number
  log: Log
  key: (name: string) => string
  isAlive: (gateway: string) => Promise<boolean>
  /** Tells a gateway that this one holds something of its own now. */
  tellLoser: (gateway: string, id: string, fence: number) => void
  /** Redis came back so shortly ago that the others may not have said again what they hold. */
  isSettling: () => boolean
}

interface Held {
  fence: number
  displace: boolean
  /** Redis has not been told. */
  isNew: boolean
}

/** The directory of owners in Redis. What this gateway holds it knows by itself, and says again whenever Redis forgot it. */
export class RedisOwners<I> implements Owners<I> {
  readonly #parts: Parts
  readonly #options: OwnersOptions<I>
  readonly #held = new Map<string, Held>()
  readonly #claims = new Set<string>()
  readonly #releases = new Set<string>()
  readonly #touched = new Set<string>()
  readonly #known = new LRUCache<string, string>({
    max: MAX_KNOWN,
    ttl: KNOWN_MS,
    allowStale: true,
    noDeleteOnStaleGet: true,
  })
  readonly #timer: NodeJS.Timeout
  readonly #unsaid: LastingFault
  /** Redis has been asked what it takes for this gateway's since something may have gone unsaid. */
  #isComplete = true
  #flushing: Promise<void> | undefined
  #isScheduled = false
  #again: NodeJS.Timeout | undefined

  constructor(parts: Parts, options: OwnersOptions<I>) {
    this.#parts = parts
    this.#options = options
    this.#unsaid = new LastingFault(parts.log, {
      begins: `Redis refuses to take what this gateway holds (${options.kind}): the others may not find it. Tried again every ${String(AGAIN_MS / 1000)} s; check that Redis may be written to and has memory left`,
      ends: `Redis knows again what this gateway holds (${options.kind})`,
    })
    this.#timer = setInterval(() => {
      if (this.#touched.size > 0) this.#schedule()
    }, TOUCH_MS).unref()
  }

  claim(id: string, displace: boolean): void {
    const before = this.#held.get(id)
    const fence = displace ? Math.max(this.#parts.now(), (before?.fence ?? 0) + 1) : (before?.fence ?? 0)
    this.#held.set(id, { fence, displace, isNew: true })
    this.#claims.add(id)
    this.#releases.delete(id)
    this.#known.delete(id)
    this.#schedule()
  }

  release(id: string): void {
    if (!this.#held.delete(id)) return
    this.#claims.delete(id)
    this.#touched.delete(id)
    this.#releases.add(id)
    this.#schedule()
  }

  touch(id: string): boolean {
    if (!this.#held.has(id)) return false
    this.#touched.add(id)
    return true
  }

  async elsewhere(id: string, withinMs?: number): Promise<string | undefined> {
    if (this.#held.has(id)) return undefined
    const known = this.#known.get(id, { allowStale: false })
    if (known !== undefined) return known
    const looking = this.#look(id)
    return withinMs === undefined ? looking : within(withinMs, looking, () => this.#known.get(id))
  }

  forget(id: string): void {
    this.#known.delete(id)
  }

  /** Never rejects. */
  async #look(id: string): Promise<string | undefined> {
    const stale = this.#known.get(id)
    try {
      if (!this.#parts.link.isReady) return stale
      const found = (await this.entries([id])).get(id)?.gateway
      if (found === undefined && this.#parts.isSettling()) return stale
      if (found === undefined) this.#known.delete(id)
      else this.#known.set(id, found)
      return found
    } catch {
      return stale
    }
  }

  async entries(ids: readonly string[]): Promise<Map<string, OwnedEntry<I>>> {
    const found = new Map<string, OwnedEntry<I>>()
    const asked = ids.filter(id => !this.#held.has(id))
    if (asked.length === 0 || !this.#parts.link.isReady) return found
    const values = await this.#parts.link.commands.hmGet(this.#owners, asked)
    for (const [index, value] of values.entries()) {
      const entry = this.#read(value)
      if (entry && entry.gateway !== this.#parts.id && (await this.#parts.isAlive(entry.gateway))) found.set(asked[index] ?? '', entry)
    }
    return found
  }

  /** Another gateway says that it holds something now. */
  taken(id: string, fence: number): void {
    const held = this.#held.get(id)
    this.#known.delete(id)
    // What is just being claimed here is decided in Redis.
    if (held && !held.isNew && held.fence < fence) this.#lose(id, true)
  }

  /** Redis is away: what is not said yet is said when it is back, with everything else. */
  away(): void {
    this.#claims.clear()
    this.#releases.clear()
    this.#touched.clear()
  }

  /** Says everything again, and what is not held any more. What another gateway took later stays there. */
  register(): void {
    this.#isComplete = false
    for (const [id, held] of this.#held) {
      held.displace = false
      held.isNew = true
      this.#claims.add(id)
    }
    this.#schedule()
  }

  /** Frees what a dead gateway held. */
  async free(gateway: string): Promise<void> {
    const { link, key } = this.#parts
    while ((await link.run(FREE, [this.#owners, key('gateways')], [gateway, this.#owned])) === 1) continue
  }

  /** Gives everything back. */
  async close(): Promise<void> {
    clearInterval(this.#timer)
    clearTimeout(this.#again)
    for (const id of [...this.#held.keys()]) this.release(id)
    await this.#flush()
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      void this.#flush()
    })
  }

  /** One at a time, so that what happens to one thing happens in its order. Never rejects. */
  #flush(): Promise<void> {
    this.#flushing ??= this.#say()
      .catch((error: unknown) => this.#refused(error))
      .finally(() => (this.#flushing = undefined))
    return this.#flushing
  }

  /** Everything is said again when Redis is back. It may also refuse while it is there, for want of memory. */
  #refused(error: unknown): void {
    if (!this.#parts.link.isReady) return
    this.#unsaid.met({ err: error })
    clearTimeout(this.#again)
    this.#again = setTimeout(() => this.register(), AGAIN_MS).unref()
  }

  async #say(): Promise<void> {
    for (;;) {
      if (!this.#parts.link.isReady) return
      if (!this.#isComplete) await this.#complete()
      const releases = take(this.#releases)
      if (releases.length > 0) await this.#run(RELEASE, [this.#parts.id, this.#owned, ...releases])
      const claims = take(this.#claims)
      if (claims.length > 0) await this.#sayClaims(claims)
      const touched = take(this.#touched)
      if (touched.length > 0) await this.#sayTouched(touched)
      if (!this.#isComplete || this.#releases.size + this.#claims.size + this.#touched.size > 0) continue
      this.#unsaid.passed()
      return
    }
  }

  /** What was given back, unheard, is given back now. */
  async #complete(): Promise<void> {
    this.#isComplete = true
    try {
      const owned = await this.#parts.link.commands.sMembers(this.#owned + this.#parts.id)
      for (const id of owned) if (!this.#held.has(id)) this.#releases.add(id)
    } catch (error) {
      this.#isComplete = false
      throw error
    }
  }

  async #sayClaims(ids: string[]): Promise<void> {
    const said = ids.flatMap(id => {
      const held = this.#held.get(id)
      return held ? [{ id, held, displace: held.displace, fence: held.fence }] : []
    })
    const args = said.flatMap(({ id, fence, displace }) => [id, String(fence), this.#infoOf(id), displace ? '1' : '0'])
    if (said.length === 0) return
    const answer = (await this.#run(CLAIM, [this.#parts.id, this.#owned, ...args])) as string[]
    for (const [index, { id, held }] of said.entries()) {
      const [fence = '', other = ''] = answer.slice(index * 2, index * 2 + 2)
      // Given back or claimed anew meanwhile: that is said next.
      if (this.#held.get(id) !== held) continue
      if (fence === '') {
        this.#known.set(id, other)
        this.#lose(id, false)
        continue
      }
      held.fence = Number(fence)
      held.isNew = false
      if (other !== '') this.#parts.tellLoser(other, id, held.fence)
    }
  }

  async #sayTouched(ids: string[]): Promise<void> {
    const args = ids.filter(id => this.#held.has(id)).flatMap(id => [id, this.#infoOf(id)])
    if (args.length === 0) return
    const lost = (await this.#run(TOUCH, [this.#parts.id, ...args])) as string[]
    for (const id of lost) {
      const held = this.#held.get(id)
      if (!held || held.isNew) continue
      this.#held.set(id, { ...held, displace: false, isNew: true })
      this.#claims.add(id)
    }
  }

  #lose(id: string, wasTaken: boolean): void {
    this.#held.delete(id)
    this.#claims.delete(id)
    this.#touched.delete(id)
    this.#options.onLost(id, wasTaken)
  }

  #run(script: string, args: string[]): Promise<unknown> {
    const { link, key } = this.#parts
    return link.run(script, [this.#owners, key('gateways')], args)
  }

  #infoOf(id: string): string {
    return JSON.stringify(this.#options.describe(id) ?? null)
  }

  #read(value: string | null): OwnedEntry<I> | undefined {
    const match = value === null ? null : /^\d+\|([^|]+)\|(.*)$/s.exec(value)
    if (!match) return undefined
    try {
      const info = this.#options.info.safeParse(JSON.parse(match[2] ?? ''))
      return info.success ? { gateway: match[1] ?? '', info: info.data } : undefined
    } catch {
      return undefined
    }
  }

  get #owners(): string {
    return this.#parts.key(`owners:${this.#options.kind}`)
  }

  get #owned(): string {
    return this.#parts.key(`owned:${this.#options.kind}:`)
  }
}

const take = (ids: Set<string>): string[] => {
  const taken: string[] = []
  for (const id of ids) {
    if (taken.length >= BATCH) break
    taken.push(id)
    ids.delete(id)
  }
  return taken
}
