import { backOffMs, pause } from './backOff.js'
import { GatewayApi, GatewayError } from './gatewayApi.js'
import { connectHub, HubRefused, type HubEnd, type HubLink, type HubListener } from './hubLink.js'
import type { NodeIdentity } from './identity.js'
import type { NodeLog } from './log.js'
import { heartbeats } from './measure.js'
import type { NodeEnd, NodeState, NodeTiming, TransportChoice } from './options.js'
import { readCommand, readScopes, type Heartbeat } from './protocol.js'
import type { Way } from './delivery.js'

const HEARTBEAT_MS = 30_000
const POLL_MS = 2000
const MIN_INTERVAL_MS = 100
const MAX_INTERVAL_MS = 300_000
/** A connection that lasted this long was a good one: the next failure is the first again. */
const STABLE_MS = 30_000
/** Polls in a row that may fail before the gateway is taken for gone. */
const MAX_FAILED_POLLS = 3

/** It is over: what is left to do needs a person. */
export class Ended extends Error {
  readonly end: NodeEnd

  constructor(end: NodeEnd, message: string) {
    super(message)
    this.name = 'Ended'
    this.end = end
  }
}

interface Parts {
  identity: NodeIdentity & { token: string }
  version: string
  transport: TransportChoice
  timing: NodeTiming
  listener: HubListener
  onState: (state: NodeState) => void
  onWay: (way: Way | undefined) => void
  log: NodeLog
  signal: AbortSignal
}

/**
 * The way to the gateway with one token: over the hub, by polling where that is refused, and back. `keep` lasts until
 * the signal aborts and rejects with `Ended` when there is no going on.
 */
export class Link {
  readonly api: GatewayApi
  readonly #parts: Parts
  readonly #heartbeat: () => Heartbeat
  #heartbeatMs = HEARTBEAT_MS
  #pollMs = POLL_MS

  constructor(parts: Parts) {
    this.#parts = parts
    const { identity, version, signal } = parts
    this.api = new GatewayApi(identity.gatewayUrl, () => identity.token, signal)
    this.#heartbeat = heartbeats(identity.nodeId, version)
  }

  async keep(): Promise<void> {
    const { signal, onState, timing, log } = this.#parts
    const backOff = { baseMs: timing.reconnectMs, maxMs: timing.maxReconnectMs }
    for (let failures = 0; !signal.aborted;) {
      const since = Date.now()
      let reason: string
      let retryAfterMs: number | undefined
      try {
        onState({ kind: 'connecting' })
        reason = await this.#session()
      } catch (error) {
        this.#endOn(error)
        reason = (error as Error).message
        if (error instanceof GatewayError) ({ retryAfterMs } = error)
      }
      if (this.#isOver) return
      failures = Date.now() - since > STABLE_MS ? 0 : failures + 1
      const waitMs = retryAfterMs ?? backOffMs(failures, backOff)
      onState({ kind: 'offline', reason })
      log('warn', `not connected: ${reason}; tried again in ${Math.ceil(waitMs / 1000)} s`)
      await pause(waitMs, signal)
    }
  }

  /** Asks the gateway what the node may do now. */
  async refresh(): Promise<void> {
    const { scopes, heartbeatIntervalMs, pollIntervalMs } = await this.api.me()
    this.#parts.listener.onScopes(readScopes(scopes))
    const { heartbeatMs, pollMs } = this.#parts.timing
    this.#heartbeatMs = heartbeatMs ?? interval(heartbeatIntervalMs, HEARTBEAT_MS)
    this.#pollMs = pollMs ?? interval(pollIntervalMs, POLL_MS)
  }

  /** From the first connection to the loss of the last. Resolves with why. */
  async #session(): Promise<string> {
    const { transport, log } = this.#parts
    await this.refresh()
    if (transport !== 'polling') {
      try {
        return await this.#serve(await this.#connect())
      } catch (error) {
        this.#endOn(error)
        if (transport === 'hub' || this.#isOver || error instanceof HubRefused) throw error
        log('warn', `the hub was not reached over a WebSocket: polling instead (${(error as Error).message})`)
      }
    }
    return this.#poll()
  }

  #connect(): Promise<HubLink> {
    const { identity, timing, signal, listener } = this.#parts
    return connectHub({ ...identity, ...listener, limitMs: timing.connectLimitMs, signal })
  }

  /** Heartbeats until the connection ends. */
  async #serve(hub: HubLink): Promise<string> {
    const { onState, onWay, signal } = this.#parts
    const close = (): void => hub.close()
    signal.addEventListener('abort', close, { once: true })
    const beating = setInterval(() => hub.heartbeat(this.#heartbeat()), this.#heartbeatMs)
    try {
      hub.heartbeat(this.#heartbeat())
      onState({ kind: 'online', transport: 'hub' })
      onWay(hub)
      return this.#afterHub(await hub.ended)
    } finally {
      clearInterval(beating)
      signal.removeEventListener('abort', close)
      onWay(undefined)
    }
  }

  #afterHub(end: HubEnd): string {
    if (end.kind === 'revoked') throw new Ended('revoked', `The gateway has revoked this node (${end.reason}): pair it anew`)
    if (end.kind === 'replaced' && !this.#isOver)
      throw new Ended('replaced', 'Another process uses the same identity and has taken this connection over')
    return end.kind === 'lost' ? end.reason : 'stopped'
  }

  /** Polls until the gateway is gone, or the hub can be reached: then it goes on there. */
  async #poll(): Promise<string> {
    const { onState, onWay, transport, signal } = this.#parts
    const leaving = new AbortController()
    const stopped = AbortSignal.any([signal, leaving.signal])
    let hub: HubLink | undefined
    const attempts =
      transport === 'polling'
        ? Promise.resolve()
        : this.#attemptHub(stopped, found => {
            hub = found
            leaving.abort()
          })
    onState({ kind: 'online', transport: 'polling' })
    onWay(this.api)
    try {
      await Promise.all(
        [this.#pollCommands(stopped), this.#beat(stopped)].map(work =>
          work.catch((error: unknown) => {
            leaving.abort()
            throw error
          }),
        ),
      )
    } catch (error) {
      await attempts
      hub?.close()
      throw error
    } finally {
      onWay(undefined)
    }
    await attempts
    return hub ? this.#serve(hub) : 'stopped'
  }

  async #attemptHub(signal: AbortSignal, onFound: (hub: HubLink) => void): Promise<void> {
    const { timing, log } = this.#parts
    const wait = { baseMs: timing.hubRetryMs, maxMs: timing.maxHubRetryMs }
    for (let failures = 0; ; failures += 1) {
      // At least half of it: this is no outage that many share, and the way in between works.
      await pause(
        backOffMs(failures, wait, () => 0.5 + Math.random() / 2),
        signal,
      )
      if (signal.aborted) return
      try {
        onFound(await this.#connect())
        return
      } catch (error) {
        // What is wrong with the token the next poll finds too.
        log('debug', `the hub was not reached: ${(error as Error).message}`)
      }
    }
  }

  async #pollCommands(signal: AbortSignal): Promise<void> {
    let failed = 0
    // At first, and when an answer was lost, also what was given before.
    for (let resume = true; !signal.aborted;) {
      try {
        const { commands } = await this.api.commands(resume)
        resume = false
        failed = 0
        for (const value of Array.isArray(commands) ? commands : []) {
          const command = readCommand(value)
          if (command) this.#parts.listener.onCommand(command)
        }
      } catch (error) {
        failed += 1
        resume = true
        if (!(error instanceof GatewayError) || !error.isTemporary || failed >= MAX_FAILED_POLLS) throw error
        if (error.retryAfterMs !== undefined) await pause(error.retryAfterMs, signal)
      }
      await pause(this.#pollMs, signal)
    }
  }

  async #beat(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        const { scopes } = await this.api.heartbeat(this.#heartbeat())
        this.#parts.listener.onScopes(readScopes(scopes))
      } catch (error) {
        // Whether the gateway is gone the polls find out.
        if (!(error instanceof GatewayError) || !error.isTemporary) throw error
      }
      await pause(this.#heartbeatMs, signal)
    }
  }

  #endOn(error: unknown): void {
    if (error instanceof Ended) throw error
    if (this.#isOver) return
    const { code, message } = error as { code?: string; message: string }
    if ((error instanceof GatewayError && error.isUnauthenticated) || (error instanceof HubRefused && code === 'unauthenticated'))
      throw new Ended('unauthenticated', `The gateway does not accept the token of this node: ${message}`)
    if (error instanceof HubRefused && code === 'protocol_unsupported') throw new Ended('protocol_unsupported', message)
  }

  get #isOver(): boolean {
    return this.#parts.signal.aborted
  }
}

/** What the gateway wishes, within reason. */
const interval = (wished: unknown, otherwise: number): number =>
  typeof wished === 'number' && wished > 0 ? Math.min(Math.max(wished, MIN_INTERVAL_MS), MAX_INTERVAL_MS) : otherwise
