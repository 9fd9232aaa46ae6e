import { isUtf8 } from 'node:buffer'
import { GatewayError, invalidRequest, notFound, serviceUnavailable } from '../../core/errors.js'
import { newId } from '../../core/id.js'
import type { Log } from '../../core/log.js'
import type { WebhookRequest } from '../../sdk/protocol.js'
import type { PluginConnection } from '../plugins/contract.js'
import type { InboundWebhook, WebhookAnswer } from '../webhooks/contract.js'
import type { Connector } from './connector.js'
import { readFailure, type Failure } from './failure.js'
import { RETRY_AFTER_SECONDS, type Inbox } from './inbox.js'
import { readWebhookResult, type AdapterAnswer } from './messages.js'
import { afterFailure, INBOX_RETRY } from './retryPolicy.js'

/** Platforms give up waiting for an answer after a few seconds; what takes longer is kept and tried again. */
const ANSWER_TIMEOUT_MS = 10_000
/** How long a request waits for a channel that is just being connected or moved to a new version. */
const MOVE_TIMEOUT_MS = 3000
/** Requests of one channel that its adapter answers at once; more are kept for later. */
const MAX_LIVE = 32

const NEW = { attempts: 0, crashes: 0, delayMs: 0 }

export const toWebhookRequest = ({ method, query, headers, body, receivedAt }: InboundWebhook): WebhookRequest => {
  const bodyEncoding = isUtf8(body) ? 'utf8' : 'base64'
  return { method, query, headers, body: body.toString(bodyEncoding), bodyEncoding, receivedAt }
}

/**
 * Requests to channels' webhook URLs. The adapter decides the answer; what it accepts is on disk before the platform
 * hears of it. An adapter that is not there, fails or takes too long: the request is kept, answered 202 and shown to
 * the adapter again later. An adapter that refuses: nothing is kept.
 */
export class ChannelWebhooks {
  readonly #connector: Connector
  readonly #inbox: Inbox
  readonly #onStored: (channelId: string) => void
  readonly #onDeath: (process: PluginConnection) => void
  readonly #log: Log
  /** Requests at adapters now, by channel. */
  readonly #live = new Map<string, number>()

  constructor(parts: {
    connector: Connector
    inbox: Inbox
    onStored: (channelId: string) => void
    onDeath: (process: PluginConnection) => void
    log: Log
  }) {
    this.#connector = parts.connector
    this.#inbox = parts.inbox
    this.#onStored = parts.onStored
    this.#onDeath = parts.onDeath
    this.#log = parts.log
  }

  async receive(channelId: string, webhook: InboundWebhook): Promise<WebhookAnswer> {
    const deliveryId = newId('dlv')
    const request = toWebhookRequest(webhook)
    const process = await this.#connector.soon(channelId, MOVE_TIMEOUT_MS)
    const live = this.#live.get(channelId) ?? 0
    if (!process || live >= MAX_LIVE) return this.#later(channelId, deliveryId, request, NEW)
    this.#live.set(channelId, live + 1)
    try {
      const answer = await this.#ask(process, { channelId, deliveryId, request })
      if (answer.status < 400 && answer.messages.length > 0) {
        await this.#inbox.accept(channelId, answer.messages)
        this.#onStored(channelId)
      }
      return { status: answer.status, headers: answer.headers, ...(answer.body === undefined ? {} : { body: answer.body }) }
    } catch (error) {
      // Our own refusal, such as a full inbox, is the answer.
      if (error instanceof GatewayError) throw error
      return await this.#failed(channelId, deliveryId, request, process, error)
    } finally {
      const left = (this.#live.get(channelId) ?? 1) - 1
      if (left > 0) this.#live.set(channelId, left)
      else this.#live.delete(channelId)
    }
  }

  async #ask(
    process: PluginConnection,
    params: { channelId: string; deliveryId: string; request: WebhookRequest },
  ): Promise<AdapterAnswer> {
    return readWebhookResult(await process.request('channel.webhook', params, { timeoutMs: ANSWER_TIMEOUT_MS }))
  }

  async #failed(
    channelId: string,
    deliveryId: string,
    request: WebhookRequest,
    process: PluginConnection,
    error: unknown,
  ): Promise<WebhookAnswer> {
    const failure = readFailure(error)
    this.#log.warn({ err: error, channelId, deliveryId }, 'an adapter did not answer a webhook')
    if (failure.kind === 'crashed') this.#onDeath(process)
    refuse(failure)
    const verdict = afterFailure(NEW, failure, INBOX_RETRY)
    return this.#later(channelId, deliveryId, request, verdict.retry ? verdict : NEW)
  }

  /** `GET` asks for an answer now, and nothing of it is worth keeping. */
  async #later(channelId: string, deliveryId: string, request: WebhookRequest, failed: typeof NEW): Promise<WebhookAnswer> {
    if (request.method === 'GET')
      throw serviceUnavailable('The channel that this URL belongs to is not connected: try again later', RETRY_AFTER_SECONDS)
    await this.#inbox.keep(channelId, deliveryId, request, failed)
    this.#onStored(channelId)
    const body = { status: 'kept', message: 'Received and stored; the channel handles it when it can' }
    return { status: 202, headers: { 'content-type': 'application/json; charset=utf-8' }, body: JSON.stringify(body) }
  }
}

/** Throws for what the adapter refuses for good: kept, it would be refused again. */
const refuse = ({ kind, message }: Failure): void => {
  if (kind === 'unsupported') throw notFound('Webhook')
  if (kind === 'refused') throw invalidRequest(`The channel refused the request: ${message}`)
}
