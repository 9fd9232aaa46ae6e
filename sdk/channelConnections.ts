import type { CallContext, ChannelAdapter, ChannelConnection } from './channel.js'
import type { ChannelTestParams, ChannelTestResult, ConnectParams, ConnectResult, DisconnectResult } from './protocol.js'
import { RpcErrorCode, type InboundMessage, type SendParams, type SendResult, type WebhookParams, type WebhookResult } from './protocol.js'
import { RpcError, rejected, temporary } from './rpcError.js'
import type { PluginHost } from './runtime.js'
import { fillDefaults, type ManifestWithSettings } from './settings.js'

interface Live {
  connection: ChannelConnection
  controller: AbortController
}

/** The connections of a channel adapter, one a channel. What changes a channel happens in order, channel by channel. */
export class ChannelConnections<M extends ManifestWithSettings> {
  readonly #adapter: ChannelAdapter<M>
  readonly #host: PluginHost
  readonly #live = new Map<string, Live>()
  readonly #turns = new Map<string, Promise<unknown>>()

  constructor(adapter: ChannelAdapter<M>, host: PluginHost) {
    this.#adapter = adapter
    this.#host = host
  }

  /** A channel that is connected already is disconnected first: new settings replace the old. */
  connect(params: ConnectParams): Promise<ConnectResult> {
    const { channelId } = params
    return this.#inTurn(channelId, async () => {
      await this.#end(channelId)
      const controller = new AbortController()
      try {
        const connection = await this.#adapter.connect(this.#context(params, controller))
        if (typeof (connection as Partial<ChannelConnection> | undefined)?.send !== 'function')
          throw new Error('connect() must return an object with send()')
        this.#live.set(channelId, { connection, controller })
        return connection.info === undefined ? {} : { info: connection.info }
      } catch (error) {
        controller.abort(error)
        throw error
      }
    })
  }

  disconnect(channelId: string): Promise<DisconnectResult> {
    return this.#inTurn(channelId, () => this.#end(channelId))
  }

  async test({ settings, webhookUrl }: ChannelTestParams, { signal }: CallContext): Promise<ChannelTestResult> {
    if (!this.#adapter.test) return { ok: true, message: 'This adapter has no test: the settings were not tried' }
    return this.#adapter.test({ settings: fillDefaults(this.#adapter.manifest, settings), webhookUrl, log: this.#host.log, signal })
  }

  async webhook({ channelId, deliveryId, request }: WebhookParams, context: CallContext): Promise<WebhookResult> {
    const { connection } = this.#get(channelId)
    if (!connection.webhook) return { response: { status: 404, body: 'This channel takes no webhooks' } }
    const call = {
      deliveryId,
      progress: context.progress,
      get signal() {
        return context.signal
      },
    }
    const result = ((await connection.webhook(request, call)) as WebhookResult | undefined) ?? {}
    for (const [index, message] of (result.messages ?? []).entries()) this.#check(message, index)
    return result
  }

  async send({ channelId, ...reply }: SendParams, context: CallContext): Promise<SendResult> {
    return (await this.#get(channelId).connection.send(reply, context)) ?? {}
  }

  async stop(): Promise<void> {
    const ends = [...this.#live.keys()].map(channelId => this.disconnect(channelId))
    const failed = (await Promise.allSettled(ends)).filter(end => end.status === 'rejected')
    if (failed.length > 0)
      throw new AggregateError(
        failed.map(({ reason }) => reason as unknown),
        `${failed.length} channels could not be disconnected`,
      )
  }

  #get(channelId: string): Live {
    const live = this.#live.get(channelId)
    if (!live) throw temporary(`Channel ${JSON.stringify(channelId)} is not connected here`)
    return live
  }

  async #end(channelId: string): Promise<DisconnectResult> {
    const live = this.#live.get(channelId)
    if (!live) return {}
    this.#live.delete(channelId)
    live.controller.abort(new RpcError(RpcErrorCode.cancelled, 'The channel was disconnected'))
    return (await live.connection.disconnect?.()) ?? {}
  }

  #context(
    { channelId, settings, webhookUrl, cursor }: ConnectParams,
    controller: AbortController,
  ): Parameters<ChannelAdapter<M>['connect']>[0] {
    const { peer, log, dataDir } = this.#host
    return {
      channelId,
      settings: fillDefaults(this.#adapter.manifest, settings),
      webhookUrl,
      cursor,
      dataDir,
      log,
      signal: controller.signal,
      receive: async (given, newCursor) => {
        controller.signal.throwIfAborted()
        const messages = Array.isArray(given) ? given : [given]
        for (const [index, message] of messages.entries()) this.#check(message, index)
        const params = { channelId, messages, ...(newCursor === undefined ? {} : { cursor: newCursor }) }
        return (await peer.request('channel.receive', params, { signal: controller.signal })).accepted
      },
      status: (status, message) => {
        peer.notify('channel.status', { channelId, status, ...(message === undefined ? {} : { message }) })
      },
    }
  }

  /** Says what is wrong with a message here, where its author is, and not in the gateway. */
  #check(message: InboundMessage, index: number): void {
    const { id, text, sender, metadata } = message as Partial<InboundMessage>
    const key = this.#adapter.manifest?.recipientMetadataKey
    const wrong =
      typeof id !== 'string' || id === ''
        ? "id must be a non-empty string, the platform's own"
        : typeof text !== 'string'
          ? 'text must be a string'
          : typeof sender?.id !== 'string' || sender.id === ''
            ? 'sender.id must be a non-empty string'
            : typeof metadata !== 'object'
              ? 'metadata must be an object'
              : key !== undefined && metadata[key] === undefined
                ? `metadata.${key} is absent, so a reply would have no address`
                : undefined
    if (wrong !== undefined) throw rejected(`Message ${index}: ${wrong}`)
  }

  #inTurn<T>(channelId: string, work: () => Promise<T>): Promise<T> {
    const turn = (this.#turns.get(channelId) ?? Promise.resolve()).then(work, work)
    this.#turns.set(channelId, turn)
    const forget = (): void => {
      if (this.#turns.get(channelId) === turn) this.#turns.delete(channelId)
    }
    turn.then(forget, forget)
    return turn
  }
}
