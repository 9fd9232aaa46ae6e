import { EventEmitter, once } from 'node:events'
import type { Log } from '../../core/log.js'
import { redact } from '../../core/redaction.js'
import type { Owned, ScopedHandle } from '../../core/store/collection.js'
import type { ChannelStatusParams } from '../../sdk/protocol.js'
import type { PluginConnection } from '../plugins/contract.js'
import type { ChannelStatus } from './contract.js'
import { readFailure } from './failure.js'
import type { Leases } from './leases.js'
import { newLink, NotTried, type Link, type Outcome } from './link.js'
import { readConnectResult, readDisconnectResult } from './messages.js'
import { backOff, CONNECT_RETRY } from './retryPolicy.js'
import type { ChannelRow } from './rows.js'
import type { ChannelSecrets } from './secrets.js'
import { Serial } from './serial.js'
import { missingSettings } from './settings.js'
import type { ChannelTypes, KnownType } from './types.js'

const CONNECT_TIMEOUT_MS = 30_000
const DISCONNECT_TIMEOUT_MS = 5000
/** An adapter that says that it lost its platform is connected anew after this, doubling, unless it recovers by itself. */
const REPORTED_RETRY_MS = 60_000
const MAX_ERROR_LENGTH = 500

export interface ConnectorParts {
  rows: ScopedHandle<ChannelRow>
  types: ChannelTypes
  secrets: ChannelSecrets
  leases: Leases
  webhookUrl: (slug: string) => string
  /** The process of a plugin that new connections go to. */
  processOf: (pluginId: string) => PluginConnection | undefined
  /** A call to this process ended with its death. */
  onDeath: (process: PluginConnection) => void
  onStatus: (channelId: string, status: ChannelStatus, lastError: string | undefined) => void
  log: Log
}

/**
 * Keeps connections as the stored channels want them: `reconcile` looks at the channel, at its plugin's process and at
 * what is connected, and does what is missing. Everything that changes any of them just asks for it. One at a time a
 * channel; the adapter never has a channel connected twice.
 */
export class Connector {
  readonly #parts: ConnectorParts
  readonly #links = new Map<string, Link>()
  readonly #serial = new Serial()
  /** Channels that were changed behind the look that the reconciliation under way has taken. */
  readonly #changed = new Set<string>()
  /** Emits a channel's id when its process is there. */
  readonly #arrivals = new EventEmitter().setMaxListeners(0)
  #stopped = false

  constructor(parts: ConnectorParts) {
    this.#parts = parts
  }

  get(channelId: string): Readonly<Link> | undefined {
    return this.#links.get(channelId)
  }

  /** The process that knows the channel, connecting included: a platform may verify the webhook URL during `connect`. */
  processFor(channelId: string): PluginConnection | undefined {
    return this.#links.get(channelId)?.process
  }

  /** The same, waiting a little when the channel is just being moved or connected. */
  async soon(channelId: string, timeoutMs: number): Promise<PluginConnection | undefined> {
    const process = this.processFor(channelId)
    if (process || !this.#serial.isBusy(channelId)) return process
    await once(this.#arrivals, channelId, { signal: AbortSignal.timeout(timeoutMs) }).catch(() => undefined)
    return this.processFor(channelId)
  }

  /** The process of a channel that is connected and says so. */
  connected(channelId: string): PluginConnection | undefined {
    const link = this.#links.get(channelId)
    return link?.status === 'connected' ? link.process : undefined
  }

  /**
   * Brings the connection in line with the stored channel. Rejects only when the store does. `atOnce`: the channel was
   * changed, so a connect under way follows what no longer holds and is given up.
   */
  reconcile(channelId: string, { anew = false, atOnce = false } = {}): Promise<Outcome> {
    if (atOnce) {
      this.#changed.add(channelId)
      this.#links.get(channelId)?.attempt?.abort(new ChannelChanged())
    }
    return this.#serial.run(channelId, () => this.#reconcile(channelId, anew))
  }

  /** Every channel that this process knew is disconnected: the process is gone. */
  lost(process: PluginConnection, reason: string): void {
    for (const link of this.#links.values()) if (link.process === process) this.#drop(link, reason)
  }

  /** Another gateway has these channels now. */
  taken(channelIds: readonly string[]): void {
    for (const channelId of channelIds) {
      this.#links.get(channelId)?.attempt?.abort(new ChannelChanged())
      void this.#serial
        .run(channelId, async () => {
          const link = this.#links.get(channelId)
          if (link?.process) await this.#disconnect(link)
          this.#forget(channelId)
        })
        .catch((error: unknown) =>
          this.#parts.log.error({ err: error, channelId }, 'a channel taken by another gateway could not be let go'),
        )
    }
  }

  /** What an adapter says about its connection. */
  reported(pluginId: string, { channelId, status, message }: ChannelStatusParams): void {
    const link = this.#links.get(channelId)
    // While it connects, the answer to `connect` decides.
    if (link?.pluginId !== pluginId || !link.process || link.status === 'connecting') return
    const wasConnected = link.status === 'connected'
    const lastError = status === 'connected' ? undefined : shownError(message ?? 'the adapter says that it is not connected')
    // Said again it is no news, and puts off no attempt to connect anew.
    if (link.status === status && link.lastError === lastError) return
    this.#set(link, status, lastError)
    clearTimeout(link.retry)
    if (status === 'connected') link.failures = 0
    else this.#retryLater(link, backOff(wasConnected ? 1 : link.failures + 1, { ...CONNECT_RETRY, baseMs: REPORTED_RETRY_MS }), true)
  }

  /** Disconnects everything, keeping the cursors. */
  async stop(): Promise<void> {
    this.#stopped = true
    for (const link of this.#links.values()) {
      clearTimeout(link.retry)
      link.attempt?.abort(new ChannelChanged())
    }
    await this.#serial.idle()
    await Promise.all([...this.#links.values()].map(link => this.#disconnect(link)))
    this.#links.clear()
  }

  async #reconcile(channelId: string, anew: boolean): Promise<Outcome> {
    this.#changed.delete(channelId)
    const row = this.#stopped ? null : await this.#parts.rows.everyone.findOne({ id: channelId })
    const wanted = row?.enabled === true && row.deletedAt === null
    const type = wanted ? this.#parts.types.get(row.type) : undefined
    const process = type?.pluginId === undefined ? undefined : this.#parts.processOf(type.pluginId)
    const before = this.#links.get(channelId)
    const wasConnected = before?.status === 'connected'
    clearTimeout(before?.retry)
    if (before?.process) {
      if (!anew && wanted && before.process === process && before.revision === row.revision)
        return { connected: wasConnected, wasConnected }
      await this.#disconnect(before)
    }
    if (!wanted || !type || !process || !(await this.#parts.leases.hold(channelId))) {
      this.#forget(channelId)
      await this.#parts.leases.release(channelId)
      if (wasConnected) this.#parts.onStatus(channelId, 'disconnected', undefined)
      return { connected: false, wasConnected }
    }
    const link = before && before.pluginId === type.pluginId ? before : newLink(channelId, type.pluginId ?? '')
    this.#links.set(channelId, link)
    const error = await this.#connect(link, row, type, process)
    return { connected: error === undefined, wasConnected, ...(error === undefined ? {} : { error }) }
  }

  /** Resolves with the reason when it failed. */
  async #connect(link: Link, stored: Owned<ChannelRow>, type: KnownType, process: PluginConnection): Promise<unknown> {
    this.#set(link, 'connecting', undefined)
    link.revision = stored.revision
    const attempt = (link.attempt = new AbortController())
    const { signal } = attempt
    if (this.#changed.has(link.channelId)) attempt.abort(new ChannelChanged())
    try {
      const row = await this.#parts.secrets.protect(stored, type)
      const settings = await this.#parts.secrets.hydrate(row, type)
      const [missing] = missingSettings(new Set(Object.keys(settings)), type)
      if (missing) {
        this.#set(link, 'error', missing.message)
        return new NotTried(missing.message)
      }
      const cursor = await this.#parts.leases.cursor(link.channelId)
      const webhookUrl = this.#parts.webhookUrl(row.slug)
      link.process = process
      this.#arrivals.emit(link.channelId)
      const params = { channelId: link.channelId, settings, webhookUrl, ...(cursor === undefined ? {} : { cursor }) }
      const result = readConnectResult(await process.request('channel.connect', params, { timeoutMs: CONNECT_TIMEOUT_MS, signal }))
      link.failures = 0
      link.info = result.info === undefined ? undefined : redact(result.info)
      this.#set(link, 'connected', undefined)
      return undefined
    } catch (error) {
      const reason: unknown = signal.aborted ? signal.reason : error
      await this.#failed(link, process, reason)
      return reason
    } finally {
      link.attempt = undefined
    }
  }

  async #failed(link: Link, process: PluginConnection, error: unknown): Promise<void> {
    const failure = readFailure(error)
    if (failure.kind === 'crashed') {
      this.#drop(link, `the plugin "${link.pluginId}" died while it connected`)
      this.#parts.onDeath(process)
      return
    }
    // It may have got further than its answer says.
    await process.request('channel.disconnect', { channelId: link.channelId }, { timeoutMs: DISCONNECT_TIMEOUT_MS }).catch(() => undefined)
    link.process = undefined
    // Whoever gave it up brings the connection in line next.
    if (error instanceof ChannelChanged) return
    link.failures += 1
    this.#set(link, 'error', failure.message)
    this.#parts.log.warn({ err: error, channelId: link.channelId, failures: link.failures }, 'a channel could not connect')
    if (failure.kind === 'refused' || failure.kind === 'unsupported') return
    this.#retryLater(link, Math.max(backOff(link.failures, CONNECT_RETRY), Math.min(failure.retryAfterMs ?? 0, CONNECT_RETRY.maxMs)), false)
  }

  #retryLater(link: Link, delayMs: number, anew: boolean): void {
    if (this.#stopped) return
    clearTimeout(link.retry)
    link.retry = setTimeout(() => {
      if (anew) link.failures += 1
      void this.reconcile(link.channelId, { anew }).catch((error: unknown) => {
        this.#parts.log.error({ err: error, channelId: link.channelId }, 'a channel could not be connected again')
        this.#retryLater(link, CONNECT_RETRY.maxMs, anew)
      })
    }, delayMs).unref()
  }

  async #disconnect(link: Link): Promise<void> {
    const { process, channelId } = link
    clearTimeout(link.retry)
    link.process = undefined
    link.status = 'disconnected'
    if (!process) return
    try {
      const result = readDisconnectResult(await process.request('channel.disconnect', { channelId }, { timeoutMs: DISCONNECT_TIMEOUT_MS }))
      if (result.cursor !== undefined) await this.#parts.leases.save(channelId, { cursor: result.cursor })
    } catch (error) {
      this.#parts.log.warn({ err: error, channelId }, 'a channel did not disconnect in order; it goes on from its last known cursor')
    }
  }

  #drop(link: Link, reason: string): void {
    clearTimeout(link.retry)
    link.process = undefined
    this.#set(link, 'disconnected', reason)
  }

  #forget(channelId: string): void {
    clearTimeout(this.#links.get(channelId)?.retry)
    this.#links.delete(channelId)
  }

  #set(link: Link, status: ChannelStatus, lastError: string | undefined): void {
    link.status = status
    link.lastError = lastError === undefined ? undefined : shownError(lastError)
    this.#parts.onStatus(link.channelId, status, link.lastError)
  }
}

const shownError = (message: string): string => redact(message).slice(0, MAX_ERROR_LENGTH)

/** A connect was given up, because what it followed no longer holds. */
class ChannelChanged extends NotTried {
  override readonly name = 'ChannelChanged'

  constructor() {
    super('The channel was changed while it connected')
  }
}
