import { z } from 'zod'
import { newId } from '../id.js'
import type { Log } from '../log.js'
import {
  notice,
  type AskOptions,
  type Cluster,
  type ClusterState,
  type Limiter,
  type LimiterOptions,
  type NoticeRef,
  type Owners,
  type OwnersOptions,
  type RequestRef,
} from './cluster.js'
import { SharedClock } from './clock.js'
import { Message, Sealer } from './envelope.js'
import { Exchange, PATIENCE_MS } from './exchange.js'
import { Gateways } from './gateways.js'
import { LastingFault } from './lastingFault.js'
import { Post } from './post.js'
import { RedisLink } from './redis.js'
import { redisLimiter } from './redisLimiter.js'
import { RedisOwners } from './redisOwners.js'

const EVERYONE = 'all'
/** How often an absence is looked at. */
const LOOK_MS = 500

const ownerTaken = notice('cluster.ownerTaken', z.object({ kind: z.string(), id: z.string(), fence: z.number() }))

interface Options {
  uri: string
  /** Which installation's gateways these are, and what proves it. */
  installation: { name: string; key: Buffer }
  /** How long a gateway is taken for alive without a sign of life. */
  leaseMs: number
  log: Log
}

type Listener = (argument: unknown) => void
interface Notices {
  ref: NoticeRef<unknown>
  listeners: Set<Listener>
}

/** Many gateways on one Redis: a channel for each, one for all, and the directory of owners. */
export class RedisCluster implements Cluster {
  readonly id = newId('gtw')
  readonly isShared = true
  readonly #log: Log
  readonly #prefix: string
  readonly #link: RedisLink
  readonly #sealer: Sealer
  readonly #post: Post
  readonly #exchange: Exchange
  readonly #clock: SharedClock
  readonly #gateways: Gateways
  readonly #owners = new Map<string, RedisOwners<unknown>>()
  /** What is heard on this gateway's channel and the common one, by notice. */
  readonly #heard = new Map<string, Notices>()
  /** What is heard about one thing, by channel. */
  readonly #followed = new Map<string, Notices>()
  readonly #looking: NodeJS.Timeout
  #ignored = 0
  #backAt = 0

  constructor({ uri, installation, leaseMs, log }: Options) {
    this.#log = log
    // In braces: a cluster of Redis servers keeps all of it together.
    this.#prefix = `{agent-gateway:${installation.name}}:`
    this.#sealer = new Sealer(installation.key, this.id)
    this.#link = new RedisLink({ uri, log, onReady: () => this.#back(), onAway: () => this.#away() })
    this.#clock = new SharedClock(this.#link, log)
    this.#post = new Post(this.#link, this.#sealer)
    this.#exchange = new Exchange({
      send: (gateway, message, onUnheard) => this.#post.send(this.#channelOf(gateway), message, onUnheard),
      awayMs: () => this.#link.awayMs,
      backMs: () => performance.now() - this.#backAt,
      log,
    })
    const unrenewed = new LastingFault(log, {
      begins:
        'Redis refuses to renew the lease of this gateway: the others take it for dead, and its nodes for offline. Check that Redis may be written to and has memory left',
      ends: 'Redis renews the lease of this gateway again',
    })
    this.#gateways = new Gateways({
      id: this.id,
      link: this.#link,
      key: this.#key('gateways'),
      leaseMs,
      onUnknown: () => {
        for (const owners of this.#owners.values()) owners.register()
      },
      onLiving: living => this.#exchange.living(living),
      free: async gateway => {
        for (const owners of this.#owners.values()) await owners.free(gateway)
      },
      onRenewed: () => unrenewed.passed(),
      onFailed: error => {
        if (this.#link.isReady) unrenewed.met({ err: error })
      },
    })
    this.#looking = setInterval(() => {
      if (!this.#link.isReady) this.#exchange.stillAway()
    }, LOOK_MS).unref()
    this.hear(ownerTaken, ({ kind, id, fence }) => this.#owners.get(kind)?.taken(id, fence))
  }

  /** Connects, and waits a little for it; without Redis it goes on connecting. */
  async start(): Promise<void> {
    await this.#link.start()
    if (!this.#link.isReady) return
    await this.#clock.measure()
    await this.#gateways.beat()
  }

  async close(): Promise<void> {
    clearInterval(this.#looking)
    this.#clock.close()
    this.#exchange.close()
    try {
      for (const owners of this.#owners.values()) await owners.close()
      this.#post.flush()
      await this.#gateways.close()
    } catch (error) {
      this.#log.warn({ err: error }, 'this gateway could not take its leave of the others: its lease runs out by itself')
    }
    this.#link.close()
  }

  state(): ClusterState {
    const { isReady, awayMs } = this.#link
    return {
      mode: 'cluster',
      isReachable: isReady,
      gateways: isReady ? this.#gateways.count : 1,
      ignored: this.#ignored,
      ...(isReady ? {} : { since: new Date(Date.now() - awayMs).toISOString() }),
    }
  }

  readonly now = (): number => this.#clock.now()

  answer<A, R>(ref: RequestRef<A, R>, handler: (argument: A) => Promise<R>): () => void {
    return this.#exchange.answer(ref, handler)
  }

  ask<A, R>(gateway: string, ref: RequestRef<A, R>, argument: A, options: AskOptions): Promise<R> {
    return this.#exchange.ask(gateway, ref, argument, options)
  }

  hear<A>(ref: NoticeRef<A>, handler: (argument: A) => void): () => void {
    return listen(this.#heard, ref.id, ref, handler)
  }

  tell<A>(ref: NoticeRef<A>, argument: A, gateway?: string): void {
    this.#post.send(gateway === undefined ? this.#key(EVERYONE) : this.#channelOf(gateway), toTell(ref, argument))
  }

  async follow<A>(ref: NoticeRef<A>, key: string, handler: (argument: A) => void): Promise<() => void> {
    const channel = this.#topic(ref, key)
    const stop = listen(this.#followed, channel, ref, handler)
    // While it is away, or when it goes away now, all that is followed is subscribed to once it is back.
    if (this.#link.isReady) await this.#link.subscribe([channel], this.#onText).catch(() => undefined)
    return () => {
      stop()
      if (!this.#followed.has(channel) && this.#link.isReady) this.#link.unsubscribe(channel).catch(() => undefined)
    }
  }

  publish<A>(ref: NoticeRef<A>, key: string, argument: A): void {
    this.#post.send(this.#topic(ref, key), toTell(ref, argument))
  }

  owners<I>(options: OwnersOptions<I>): Owners<I> {
    const { kind } = options
    const owners = new RedisOwners<I>(
      {
        id: this.id,
        link: this.#link,
        now: this.now,
        log: this.#log,
        key: name => this.#key(name),
        isAlive: gateway => this.#gateways.isAlive(gateway),
        tellLoser: (gateway, id, fence) => this.tell(ownerTaken, { kind, id, fence }, gateway),
        isSettling: () => performance.now() - this.#backAt < PATIENCE_MS,
      },
      options,
    )
    this.#owners.set(kind, owners)
    return owners
  }

  readonly limiter = (options: LimiterOptions): Limiter =>
    redisLimiter({
      ...options,
      keyPrefix: this.#key(`limit:${options.keyPrefix}`),
      client: this.#link.commands,
      hash: key => this.#sealer.hash(key),
    })

  #away(): void {
    this.#exchange.away()
    for (const owners of this.#owners.values()) owners.away()
  }

  #back(): void {
    this.#backAt = performance.now()
    const listening = this.#link.subscribe([this.#channelOf(this.id), this.#key(EVERYONE), ...this.#followed.keys()], this.#onText)
    listening
      .then(async () => {
        await this.#clock.measure()
        await this.#gateways.beat()
        // What was on its way, or came to pass, while Redis was away has not been said.
        for (const owners of this.#owners.values()) owners.register()
        this.#exchange.back()
      })
      // It went away again.
      .catch(() => undefined)
  }

  readonly #onText = (sealed: string, channel: string): void => {
    try {
      const opened = this.#sealer.open(channel, sealed)
      if (!opened) this.#ignored += 1
      else if (opened.from !== this.id) for (const message of opened.messages) this.#receive(opened.from, channel, message)
    } catch (error) {
      this.#ignored += 1
      this.#log.error({ err: error }, 'a message of another gateway could not be worked on')
    }
  }

  #receive(from: string, channel: string, raw: unknown): void {
    const message = Message.safeParse(raw)
    const isHeard =
      message.success && (message.data.t === 'tell' ? this.#tellOn(channel, message.data) : this.#exchange.receive(from, message.data))
    if (!isHeard) this.#ignored += 1
  }

  #tellOn(channel: string, { m, a }: Extract<Message, { t: 'tell' }>): boolean {
    const isTopic = channel.startsWith(this.#key('about:'))
    const notices = isTopic ? this.#followed.get(channel) : this.#heard.get(m)
    // A topic that is not followed any more.
    if (!notices) return isTopic
    const argument = notices.ref.argument.safeParse(a)
    if (!argument.success || notices.ref.id !== m) return false
    for (const listener of [...notices.listeners]) listener(argument.data)
    return true
  }

  #channelOf(gateway: string): string {
    return this.#key(`to:${gateway}`)
  }

  #topic({ id }: { id: string }, key: string): string {
    return this.#key(`about:${id}:${key}`)
  }

  #key(name: string): string {
    return this.#prefix + name
  }
}

const listen = <A>(all: Map<string, Notices>, name: string, ref: NoticeRef<A>, handler: (argument: A) => void): (() => void) => {
  const notices = all.get(name) ?? { ref: ref, listeners: new Set<Listener>() }
  all.set(name, notices)
  const listener: Listener = argument => handler(argument as A)
  notices.listeners.add(listener)
  return () => {
    notices.listeners.delete(listener)
    if (notices.listeners.size === 0 && all.get(name) === notices) all.delete(name)
  }
}

const toTell = <A>(ref: NoticeRef<A>, a: A): string => JSON.stringify({ t: 'tell', m: ref.id, a } satisfies Message)
