import { ChannelConnections } from './channelConnections.js'
import type { HandlerContext } from './incomingCalls.js'
import type { PluginLog } from './log.js'
import type { ChannelStatusParams, ChannelTestResult, DisconnectResult, InboundMessage, SendParams, SendResult } from './protocol.js'
import type { WebhookRequest, WebhookResult } from './protocol.js'
import { startSoon, type PluginDefinition } from './runtime.js'
import type { ManifestWithSettings, SettingsOf } from './settings.js'

/** What `test` works with: settings that are not in use yet. */
export interface ChannelTrial<Settings> {
  /** Every declared setting that has a value or a default, secrets included. */
  settings: Settings
  /** Where the platform must post its webhooks for this channel. */
  webhookUrl: string
  log: PluginLog
  /** Aborted when nobody waits for the answer any more. */
  signal: AbortSignal
}

/** What `connect` works with. */
export interface ChannelContext<Settings> {
  channelId: string
  /** Every declared setting that has a value or a default, secrets included: the only place where a plugin gets them. */
  settings: Settings
  /** Where the platform must post its webhooks for this channel. */
  webhookUrl: string
  /** What an earlier connection of this channel returned from `disconnect` or gave to `receive`. */
  cursor: string | undefined
  /** The plugin's own writable directory, shared by its channels, kept over restarts and new versions. */
  dataDir: string
  log: PluginLog
  /** Aborted when the channel is disconnected: pass it to what runs on, such as a polling loop. */
  signal: AbortSignal
  /**
   * Hands messages to the gateway, for platforms that are polled or push over a connection. Resolves with how many
   * were new once all are on disk, `cursor` with them. Rejects with an `RpcError`; a `retryable` one may be tried again
   * with the same messages: a message is known by its `id`.
   */
  receive: (messages: InboundMessage | InboundMessage[], cursor?: string) => Promise<number>
  /** Tells the administrator how the connection is doing. Not needed while `connect` and `send` tell. */
  status: (status: ChannelStatusParams['status'], message?: string) => void
}

/** A reply to deliver. */
export type OutgoingReply = Omit<SendParams, 'channelId'>

/** What a handler knows about its call. */
export type CallContext = HandlerContext

/** A connected channel. Throw `rejected(...)` where retrying cannot help, `temporary(...)` where it may. */
export interface ChannelConnection {
  /** A line for the administrator, for example the connected account's name. */
  info?: string
  /** Answers the platform's request and says which messages were in it. Without it, requests get a 404. */
  webhook?(request: WebhookRequest, call: CallContext & { readonly deliveryId: string }): WebhookResult | Promise<WebhookResult>
  /** Delivers a reply. Resolve once the platform has taken it. */
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- a platform may have no id to give back
  send(reply: OutgoingReply, call: CallContext): SendResult | void | Promise<SendResult | void>
  /** Lets go of the platform. A returned `cursor` is handed to the next `connect`, also of a newer version. */
  // eslint-disable-next-line @typescript-eslint/no-invalid-void-type -- most platforms need no cursor
  disconnect?(): DisconnectResult | void | Promise<DisconnectResult | void>
}

/** A channel adapter: how to connect one channel. */
export interface ChannelAdapter<M extends ManifestWithSettings = ManifestWithSettings> {
  /** The manifest, `as const`: gives the settings their types, their defaults, and checks messages for `recipientMetadataKey`. */
  manifest?: M
  /** Connects one channel; a plugin may have several. Throw where the settings are wrong. */
  connect(channel: ChannelContext<SettingsOf<M>>): ChannelConnection | Promise<ChannelConnection>
  /** Checks settings against the platform without connecting. The message must not hold a secret. */
  test?(trial: ChannelTrial<SettingsOf<M>>): ChannelTestResult | Promise<ChannelTestResult>
}

/**
 * Declares this process a channel adapter, and runs it. Call it once, in the entry file, and export the result for
 * the test kit.
 */
export function defineChannelAdapter<const M extends ManifestWithSettings = ManifestWithSettings>(
  adapter: ChannelAdapter<M>,
): PluginDefinition {
  const definition: PluginDefinition = {
    kind: 'channel',
    serve: host => {
      const connections = new ChannelConnections(adapter, host)
      return {
        handlers: {
          'channel.connect': params => connections.connect(params),
          'channel.disconnect': ({ channelId }) => connections.disconnect(channelId),
          'channel.test': (params, context) => connections.test(params, context),
          'channel.webhook': (params, context) => connections.webhook(params, context),
          'channel.send': (params, context) => connections.send(params, context),
        },
        stop: () => connections.stop(),
      }
    },
  }
  startSoon(definition)
  return definition
}

/** The exact bytes of a webhook's body: what signatures are made over. */
export const webhookBytes = (request: Pick<WebhookRequest, 'body' | 'bodyEncoding'>): Buffer =>
  Buffer.from(request.body, request.bodyEncoding)
