import type {
  DisconnectResult,
  HostRequests,
  InboundMessage,
  PluginNotifications,
  PluginRequests,
  SendParams,
  SendResult,
  SharedNotifications,
  WebhookRequest,
  WebhookResult,
} from './protocol.js'
import type { Peer } from './rpc.js'

/** The gateway's end of the connection. */
export type HostPeer = Peer<HostRequests, PluginRequests, SharedNotifications, PluginNotifications>

/** A webhook's request, as far as it matters to the test. */
export interface TestWebhook {
  method?: string
  query?: Record<string, string>
  /** Names are lower-cased, as the gateway does. */
  headers?: Record<string, string>
  /** Text, bytes, or anything else, which is sent as JSON. */
  body?: unknown
  receivedAt?: string
  deliveryId?: string
}

/** A connected channel under test. */
export class TestChannel {
  readonly channelId: string
  /** What `connect` of the adapter said about itself. */
  info: string | undefined
  /** The messages that came in, by webhook and by `receive`; the same id once. */
  readonly messages: InboundMessage[] = []
  /** The last cursor that came with messages. */
  cursor: string | undefined
  readonly #peer: HostPeer
  readonly #recipientKey: string
  #lastNumber = 0

  constructor(peer: HostPeer, channelId: string, recipientKey: string) {
    this.#peer = peer
    this.channelId = channelId
    this.#recipientKey = recipientKey
  }

  /** Hands over a request to the channel's webhook URL. */
  async webhook({ method = 'POST', query = {}, headers = {}, body, receivedAt, deliveryId }: TestWebhook): Promise<WebhookResult> {
    const request: WebhookRequest = {
      method,
      query,
      headers: Object.fromEntries(Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value])),
      ...encodeBody(body),
      receivedAt: receivedAt ?? new Date().toISOString(),
    }
    const params = { channelId: this.channelId, deliveryId: deliveryId ?? `dlv_${++this.#lastNumber}`, request }
    const result = await this.#peer.request('channel.webhook', params)
    this.take(result.messages ?? [], undefined)
    return result
  }

  /** Has a reply delivered. The metadata holds the recipient unless given. */
  send(reply: Partial<Omit<SendParams, 'channelId'>> & { recipient: string; text: string }): Promise<SendResult> {
    const metadata = reply.metadata ?? { [this.#recipientKey]: reply.recipient }
    return this.#peer.request('channel.send', { deliveryId: `snd_${++this.#lastNumber}`, ...reply, metadata, channelId: this.channelId })
  }

  disconnect(): Promise<DisconnectResult> {
    return this.#peer.request('channel.disconnect', { channelId: this.channelId })
  }

  /** Counts the new ones, as the gateway does. */
  take(messages: InboundMessage[], cursor: string | undefined): number {
    const known = new Set(this.messages.map(({ id }) => id))
    const fresh = messages.filter(({ id }) => !known.has(id))
    this.messages.push(...fresh)
    this.cursor = cursor ?? this.cursor
    return fresh.length
  }
}

function encodeBody(body: unknown): Pick<WebhookRequest, 'body' | 'bodyEncoding'> {
  if (body === undefined) return { body: '', bodyEncoding: 'utf8' }
  if (typeof body === 'string') return { body, bodyEncoding: 'utf8' }
  if (!(body instanceof Uint8Array)) return { body: JSON.stringify(body), bodyEncoding: 'utf8' }
  const bytes = Buffer.from(body)
  const text = bytes.toString()
  return Buffer.from(text).equals(bytes) ? { body: text, bodyEncoding: 'utf8' } : { body: bytes.toString('base64'), bodyEncoding: 'base64' }
}
