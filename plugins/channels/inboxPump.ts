import { z } from 'zod'
import type { Log } from '../../core/log.js'
import type { Owned, ScopedHandle } from '../../core/store/collection.js'
import type { InboundMessage } from '../../sdk/protocol.js'
import { temporary } from '../../sdk/rpc.js'
import type { Agents } from '../agents/contract.js'
import type { Chat } from '../chat/contract.js'
import type { PluginConnection } from '../plugins/contract.js'
import type { Connector } from './connector.js'
import { readFailure } from './failure.js'
import type { Inbox } from './inbox.js'
import type { Leases } from './leases.js'
import { Metadata, readWebhookResult } from './messages.js'
import type { NoteKind } from './notes.js'
import type { Run } from './pump.js'
import { afterFailure, INBOX_RETRY } from './retryPolicy.js'
import type { ChannelRow, InboxRow } from './rows.js'
import type { Suspects } from './suspects.js'
import type { ChannelTypes } from './types.js'

/** The kind of origin that replies to channels come back under. */
export const ORIGIN = 'channel'
const MAX_RECIPIENT_LENGTH = 512
/** Nobody waits for this answer, so it may take as long as any call. */
const WEBHOOK_TIMEOUT_MS = 30_000

export const OriginData = z.object({ channelId: z.string(), recipient: z.string().min(1).max(MAX_RECIPIENT_LENGTH), metadata: Metadata })

interface InboxParts {
  rows: ScopedHandle<ChannelRow>
  inbox: Inbox
  types: ChannelTypes
  leases: Leases
  connector: Connector
  suspects: Suspects
  chat: Chat
  agents: Agents
  onDeath: (process: PluginConnection) => void
  tell: (channelId: string, kind: NoteKind) => Promise<void>
  log: Log
}

/** Handles what waits in inboxes, one after the other for each channel: kept requests go to the adapter, messages to the agent. */
export class InboxPump {
  readonly #parts: InboxParts

  constructor(parts: InboxParts) {
    this.#parts = parts
  }

  /** Works until nothing can be done now. Resolves with the milliseconds until the next try, if there is one. */
  async drain(channelId: string, run: Run): Promise<number | undefined> {
    const { rows, inbox, leases, connector } = this.#parts
    const channel = await rows.everyone.findOne({ id: channelId })
    if (!channel || channel.deletedAt !== null) {
      // It came in while the channel was deleted: nobody will ever handle it.
      await inbox.removeAll(channelId)
      return undefined
    }
    if (!channel.enabled) return undefined
    if (!(await leases.hold(channelId))) {
      await this.#parts.tell(channelId, 'waiting')
      return undefined
    }
    try {
      for (;;) {
        const row = run.isStopped ? null : await inbox.next(channelId)
        if (!row) return undefined
        const waitMs = row.nextAt === null ? 0 : Date.parse(row.nextAt) - Date.now()
        if (waitMs > 0) return waitMs
        const isHandled = row.kind === 'request' ? await this.#request(row, run.signal) : await this.#message(row, channel)
        if (!isHandled) return undefined
      }
    } finally {
      // Given back unless a connection needs it.
      if (!connector.get(channelId)) await connector.reconcile(channelId)
    }
  }

  /** Resolves with false when the adapter is not there: its connection kicks the pump again. */
  async #request(row: InboxRow, signal: AbortSignal): Promise<boolean> {
    return this.#parts.suspects.try(row, async process => process !== undefined && (await this.#show(row, process, signal)))
  }

  async #show(row: InboxRow, process: PluginConnection, signal: AbortSignal): Promise<boolean> {
    const { inbox, log } = this.#parts
    const { id, channelId, request } = row
    if (!request) {
      await inbox.discard(row)
      return true
    }
    try {
      const params = { channelId, deliveryId: id, request }
      const answer = await process.request('channel.webhook', params, { timeoutMs: WEBHOOK_TIMEOUT_MS, signal })
      const { status, messages } = readWebhookResult(answer)
      if (isForLater(status)) throw temporary(`the adapter answered with ${status}`)
      if (status >= 400) log.warn({ channelId, deliveryId: id, status }, 'an adapter refused a webhook that was kept for it: discarded')
      else await inbox.take(row, messages)
      await inbox.discard(row)
    } catch (error) {
      // Shown to the adapter again, under the same id, after the next start.
      if (signal.aborted) return false
      if (readFailure(error).kind === 'crashed') this.#parts.onDeath(process)
      await this.#failed(row, error)
    }
    return true
  }

  async #message(row: InboxRow, channel: Owned<ChannelRow>): Promise<boolean> {
    const { inbox, chat, types } = this.#parts
    const { message } = row
    const recipient = message && recipientOf(message, types.ofStored(channel.type).recipientMetadataKey)
    if (!message || recipient === undefined) {
      await inbox.bury(row, `its metadata lacks "${types.ofStored(channel.type).recipientMetadataKey}", which says where a reply goes`)
      return true
    }
    try {
      const agentId = await this.#agentOf(channel)
      await chat.send(
        { tenant: channel.tenant, userId: channel.userId },
        {
          message: message.text,
          sessionKey: `channel:${channel.id}:${recipient}`,
          idempotencyKey: `channel:${channel.id}:${message.id}`,
          ...(agentId === undefined ? {} : { agentId }),
          origin: { kind: ORIGIN, data: { channelId: channel.id, recipient, metadata: message.metadata } },
        },
      )
      await inbox.done(row)
    } catch (error) {
      await this.#failed(row, error)
    }
    return true
  }

  /** The channel's agent; the default one when it has none, or none any more: nobody there could choose another. */
  async #agentOf({ agentId, tenant, userId, id }: Owned<ChannelRow>): Promise<string | undefined> {
    if (agentId === null) return undefined
    try {
      await this.#parts.agents.get({ tenant, userId }, agentId)
      return agentId
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'not_found') throw error
      this.#parts.log.warn({ channelId: id, agentId }, "a channel's agent was deleted: the default agent answers")
      return undefined
    }
  }

  async #failed(row: InboxRow, error: unknown): Promise<void> {
    const verdict = afterFailure(row, readFailure(error), INBOX_RETRY)
    if (verdict.retry) {
      await this.#parts.inbox.retry(row, verdict)
      return
    }
    this.#parts.log.warn({ err: error, channelId: row.channelId, deliveryId: row.id }, 'what came in for a channel is given up')
    await this.#parts.inbox.bury(row, verdict.reason)
  }
}

/** Answers that ask a platform to come again. This request was acknowledged, so it is for us to do. */
const isForLater = (status: number): boolean => status >= 500 || [408, 425, 429].includes(status)

const recipientOf = ({ metadata }: InboundMessage, key: string): string | undefined => {
  const value = Object.hasOwn(metadata, key) ? metadata[key] : undefined
  if (value === undefined || value === '') return undefined
  const recipient = String(value)
  return recipient.length > MAX_RECIPIENT_LENGTH ? undefined : recipient
}
