import type { RateLimiterAbstract } from 'rate-limiter-flexible'
import type { z } from 'zod'

/** Something that one gateway asks another for. Both sides check what they are sent. */
export interface RequestRef<A, R> {
  readonly id: string
  readonly argument: z.ZodType<A>
  readonly result: z.ZodType<R>
}

export const request = <A, R>(id: string, argument: z.ZodType<A>, result: z.ZodType<R>): RequestRef<A, R> => ({ id, argument, result })

/** Something that one gateway tells others. It may get lost: what must not be lost is on disk as well. */
export interface NoticeRef<A> {
  readonly id: string
  readonly argument: z.ZodType<A>
}

export const notice = <A>(id: string, argument: z.ZodType<A>): NoticeRef<A> => ({ id, argument })

/** The other gateway could not be asked, never answered, or is of a version that speaks of this in another way. */
export class Unreachable extends Error {
  override readonly name = 'Unreachable'
  /** It may have been heard nevertheless. */
  readonly maybeDone: boolean

  constructor(message: string, maybeDone: boolean) {
    super(message)
    this.maybeDone = maybeDone
  }
}

export interface AskOptions {
  timeoutMs: number
  /** Stays pending through a short absence of the bus, and is asked again after it. The other side answers each request once. */
  patient?: boolean
}

/** How the gateways of this installation stand to each other. */
export interface ClusterState {
  mode: 'single' | 'cluster'
  /** Whether the others can be reached now; always, when there are none. */
  isReachable: boolean
  /** Gateways that are alive, this one included. */
  gateways: number
  /** Since when the others cannot be reached. */
  since?: string
  /** Messages of other gateways that were not understood or not proven, and were ignored. */
  ignored: number
}

/** What an owner says of what it holds. */
export interface OwnedEntry<I> {
  gateway: string
  info: I
}

/**
 * Which gateway holds what: each thing is held by one gateway at most, and what a gateway held that died is free
 * within the time of its lease.
 */
export interface Owners<I> {
  /**
   * This gateway holds it from now on. Told at once here; the others hear of it soon. With `displace` the gateway that held
   * it before loses it, without it this one does.
   */
  claim(id: string, displace: boolean): void
  release(id: string): void
  /** What this gateway says of it has changed. False: it does not hold it. */
  touch(id: string): boolean
  /**
   * Who else holds it; `undefined`: nobody, this gateway, or nobody can tell, within so many milliseconds where they are
   * given. That another one does may be a few seconds old.
   */
  elsewhere(id: string, withinMs?: number): Promise<string | undefined>
  /** What `elsewhere` said was wrong. */
  forget(id: string): void
  /** What other gateways say of what they hold. */
  entries(ids: readonly string[]): Promise<Map<string, OwnedEntry<I>>>
}

export interface OwnersOptions<I> {
  kind: string
  info: z.ZodType<I>
  /** What this gateway says of something that it holds. */
  describe: (id: string) => I | undefined
  /** Another gateway holds it now: it took it, or it has held it for longer than could be known here. */
  onLost: (id: string, wasTaken: boolean) => void
}

/** A counter of calls for each key, over all gateways where there are several. */
export type LimiterOptions = { keyPrefix: string; points: number; duration: number }
export type Limiter = RateLimiterAbstract

/**
 * The gateways of one installation, as the areas see them: the same whether there is one or many. With one, nobody can
 * be asked, nothing is held elsewhere, and nothing leaves the process.
 */
export interface Cluster {
  /** This gateway among the others: another one at each start. */
  readonly id: string
  readonly isShared: boolean
  /**
   * Milliseconds since 1970 by the clock that all gateways share: of times that one of them writes and another compares.
   * With one gateway that is `Date.now()`. What the store's own expiry compares goes by `Date.now()` everywhere.
   */
  readonly now: () => number
  state(): ClusterState
  /** Answers what others ask. Returns the undo. */
  answer<A, R>(ref: RequestRef<A, R>, handler: (argument: A) => Promise<R>): () => void
  /** Rejects with `Unreachable`, or with `GatewayError` as the other side threw it. */
  ask<A, R>(gateway: string, ref: RequestRef<A, R>, argument: NoInfer<A>, options: AskOptions): Promise<R>
  /** Hears what others tell. Returns the undo. */
  hear<A>(ref: NoticeRef<A>, handler: (argument: A) => void): () => void
  /** Tells one gateway, or all others. */
  tell<A>(ref: NoticeRef<A>, argument: NoInfer<A>, gateway?: string): void
  /**
   * Hears what others tell about one thing. Resolves once it is listened for, or at once while that cannot be; returns the
   * undo.
   */
  follow<A>(ref: NoticeRef<A>, key: string, handler: (argument: A) => void): Promise<() => void>
  /** Tells whoever follows. */
  publish<A>(ref: NoticeRef<A>, key: string, argument: NoInfer<A>): void
  owners<I>(options: OwnersOptions<I>): Owners<I>
  /** Counts calls over all gateways; each counts for itself while the others cannot be reached. */
  readonly limiter: (options: LimiterOptions) => Limiter
}
