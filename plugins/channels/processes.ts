import PQueue from 'p-queue'
import type { Log } from '../../core/log.js'
import type { ScopedHandle } from '../../core/store/collection.js'
import type { PluginConnection, PluginHost } from '../plugins/contract.js'
import type { Connector } from './connector.js'
import { readFailure } from './failure.js'
import { NotTried, type Outcome } from './link.js'
import { BadAnswer } from './messages.js'
import type { ChannelRow } from './rows.js'
import type { ChannelTypes } from './types.js'

/** Channels of one plugin that are connected or moved at the same time. */
const CONCURRENCY = 16
const PAGE = 200
/** Until it is looked whether the plugin serves after all, by another process than the one that died. */
const LOOK_AGAIN_MS = 250

interface Known {
  process: PluginConnection
  /** The host has said that it serves; until then, that it does not is no news. */
  confirmed: boolean
}

/**
 * Whether a channel that did not connect to a new version speaks against the version. Its process dying, or breaking
 * the protocol, or failing by a mistake of its own on a channel that the old version had connected, does; a platform
 * that is down, or credentials that it refuses, would meet the old version in the same way.
 */
export const speaksAgainstVersion = ({ wasConnected, error }: Outcome): boolean => {
  if (error === undefined) return false
  const { kind } = readFailure(error)
  if (kind === 'crashed' || kind === 'unsupported' || error instanceof BadAnswer) return true
  return kind === 'broken' && wasConnected && !(error instanceof NotTried)
}

/** Which process of each plugin the channels are connected to, and their move from one to the next. */
export class Processes {
  readonly #host: PluginHost
  readonly #types: ChannelTypes
  readonly #rows: ScopedHandle<ChannelRow>
  readonly #log: Log
  readonly #known = new Map<string, Known>()
  /** One a plugin: those of an adapter that hangs hold up no other's. */
  readonly #queues = new Map<string, PQueue>()
  connector: Pick<Connector, 'reconcile' | 'lost'> | undefined

  constructor(host: PluginHost, types: ChannelTypes, rows: ScopedHandle<ChannelRow>, log: Log) {
    this.#host = host
    this.#types = types
    this.#rows = rows
    this.#log = log
  }

  of(pluginId: string): PluginConnection | undefined {
    return this.#known.get(pluginId)?.process
  }

  /**
   * A process has finished its handshake. The plugin's first: its channels are connected in the background. A new
   * version: each channel leaves the old process and goes on in the new one from its cursor; when that speaks against
   * the version, all go back and this rejects, so that the old one stays.
   */
  async arrived(pluginId: string, next: PluginConnection, old: PluginConnection | undefined): Promise<void> {
    const before = this.#known.get(pluginId)
    this.#known.set(pluginId, { process: next, confirmed: false })
    const moving = this.#reconcileAll(pluginId)
    if (!old) {
      moving.catch((error: unknown) => this.#log.error({ err: error, pluginId }, 'the channels of a plugin could not be connected'))
      return
    }
    const failed = (await moving).find(speaksAgainstVersion)
    if (!failed) return
    this.#known.set(pluginId, before ?? { process: old, confirmed: true })
    await this.#reconcileAll(pluginId)
    throw new Error(`A channel that was connected cannot connect to the new version: ${readFailure(failed.error).message}`, {
      cause: failed.error,
    })
  }

  /** The host has news of a plugin. */
  changed(pluginId: string): void {
    const known = this.#known.get(pluginId)
    const isReady = this.#types.ofPlugin(pluginId).some(({ ready }) => ready)
    if (known && isReady) known.confirmed = true
    if (known?.confirmed && !isReady) this.died(known.process)
    if (!known && isReady) this.#adopt(pluginId)
  }

  /** The process has ended, or is ending. */
  died(process: PluginConnection): void {
    for (const [pluginId, known] of this.#known) {
      if (known.process !== process) continue
      this.#known.delete(pluginId)
      this.connector?.lost(process, `the plugin "${pluginId}" does not run: it connects when the plugin is back`)
      // A new version that died right behind its take-over: the host goes on with the old one and says nothing more.
      setTimeout(() => {
        this.changed(pluginId)
      }, LOOK_AGAIN_MS).unref()
    }
  }

  /** Connects what could be connected and is not: channels that another gateway has left, for example. */
  async connectFree(isKnown: (channelId: string) => boolean): Promise<void> {
    for (const pluginId of this.#known.keys()) await this.#reconcileAll(pluginId, isKnown)
  }

  async idle(): Promise<void> {
    await Promise.all([...this.#queues.values()].map(queue => queue.onIdle()))
  }

  /** It serves, and we were not there when it came: called through the host. */
  #adopt(pluginId: string): void {
    const process: PluginConnection = { request: (method, params, options) => this.#host.request(pluginId, method, params, options) }
    this.#known.set(pluginId, { process, confirmed: true })
    this.#reconcileAll(pluginId).catch((error: unknown) =>
      this.#log.error({ err: error, pluginId }, 'the channels of a plugin could not be connected'),
    )
  }

  async #reconcileAll(pluginId: string, skip: (channelId: string) => boolean = () => false): Promise<Outcome[]> {
    const types = this.#types.ofPlugin(pluginId).map(({ type }) => type)
    const queue = this.#queues.get(pluginId) ?? new PQueue({ concurrency: CONCURRENCY })
    this.#queues.set(pluginId, queue)
    const outcomes: Promise<Outcome | undefined>[] = []
    let cursor: string | undefined
    do {
      const page = await this.#rows.everyone.page({ type: { $in: types }, enabled: true }, { limit: PAGE, cursor, sort: { createdAt: 1 } })
      for (const { id } of page.items) if (!skip(id)) outcomes.push(queue.add(async () => this.connector?.reconcile(id)))
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    return (await Promise.all(outcomes)).filter(outcome => outcome !== undefined)
  }
}
