import type { Log } from '../../core/log.js'
import type { ScopedHandle } from '../../core/store/collection.js'
import type { OutgoingReply } from '../chat/contract.js'
import type { PluginConnection } from '../plugins/contract.js'
import type { Connector } from './connector.js'
import { readFailure } from './failure.js'
import { OriginData } from './inboxPump.js'
import type { Leases } from './leases.js'
import type { NoteKind } from './notes.js'
import type { Outbox } from './outbox.js'
import type { Run } from './pump.js'
import { afterFailure, OUTBOX_RETRY } from './retryPolicy.js'
import type { ChannelRow, OutboxRow } from './rows.js'
import type { Suspects } from './suspects.js'

/** Replies of one channel under way at once, each to another recipient. */
const MAX_UNDER_WAY = 8
/** Recipients passed over because their oldest reply has to wait; beyond it the channel waits. */
const MAX_PASSED_OVER = 200
/** Until the next look at a reply that another gateway is sending. */
const CLAIMED_ELSEWHERE_MS = 30_000
const SEND_TIMEOUT_MS = 30_000

interface OutboxParts {
  rows: ScopedHandle<ChannelRow>
  outbox: Outbox
  leases: Leases
  suspects: Suspects
  connector: Connector
  onDeath: (process: PluginConnection) => void
  tell: (channelId: string, kind: NoteKind) => Promise<void>
  log: Log
}

/** Sends replies: in order for each recipient, recipients beside each other. */
export class OutboxPump {
  readonly #parts: OutboxParts

  constructor(parts: OutboxParts) {
    this.#parts = parts
  }

  /** Puts a finished task's answer into the outbox. Resolves with its channel when there is something to send. */
  async take({ taskId, origin, text }: OutgoingReply): Promise<string | undefined> {
    const data = OriginData.safeParse(origin.data)
    if (!data.success) {
      this.#parts.log.error({ taskId, issues: data.error.issues }, 'a reply to a channel does not say where it goes: dropped')
      return undefined
    }
    const { channelId, recipient, metadata } = data.data
    const channel = await this.#parts.rows.everyone.findOne({ id: channelId })
    if (text.trim() === '' || !channel || channel.deletedAt !== null) return undefined
    return (await this.#parts.outbox.add({ id: taskId, channelId, recipient, text, metadata })) ? channelId : undefined
  }

  /** Sends until nothing can be sent now. Resolves with the milliseconds until the next try, if there is one. */
  async drain(channelId: string, run: Run): Promise<number | undefined> {
    if (!this.#parts.connector.connected(channelId)) {
      await this.#elsewhere(channelId)
      return undefined
    }
    if (!(await this.#parts.leases.hold(channelId))) return undefined
    const underWay = new Map<string, Promise<void>>()
    const passedOver = new Map<string, number>()
    try {
      for (;;) {
        for (const [recipient, dueAt] of passedOver) if (dueAt <= Date.now()) passedOver.delete(recipient)
        const free = passedOver.size < MAX_PASSED_OVER ? MAX_UNDER_WAY - underWay.size : 0
        const process = run.isStopped ? undefined : this.#parts.connector.connected(channelId)
        const kicked = run.kicked()
        const rows = process && free > 0 ? await this.#heads(channelId, [...underWay.keys(), ...passedOver.keys()], free) : []
        for (const row of rows) {
          const dueAt = row.nextAt === null ? 0 : Date.parse(row.nextAt)
          if (dueAt > Date.now()) passedOver.set(row.recipient, dueAt)
          else if (process)
            underWay.set(
              row.recipient,
              this.#sendHead(row, passedOver, run).finally(() => underWay.delete(row.recipient)),
            )
        }
        if (rows.length > 0) continue
        if (underWay.size === 0) break
        // A recipient that takes long holds up neither those who come meanwhile nor those whose time comes.
        await firstOf([...underWay.values(), kicked], earliest(passedOver))
      }
    } finally {
      await Promise.allSettled(underWay.values())
    }
    const dueAt = earliest(passedOver)
    if (dueAt === undefined || !this.#parts.connector.connected(channelId)) return undefined
    return Math.max(0, dueAt - Date.now())
  }

  /** A reply that is for another gateway to send, or for nobody any more. */
  async #elsewhere(channelId: string): Promise<void> {
    const channel = await this.#parts.rows.everyone.findOne({ id: channelId })
    if (!channel || channel.deletedAt !== null) await this.#parts.outbox.removeAll(channelId)
    else await this.#parts.tell(channelId, 'waiting')
  }

  /** The oldest reply of each of a few recipients. */
  async #heads(channelId: string, except: string[], limit: number): Promise<OutboxRow[]> {
    const rows = await this.#parts.outbox.waiting(channelId, except, limit * 2)
    const heads = new Map<string, OutboxRow>()
    for (const row of rows) if (!heads.has(row.recipient) && heads.size < limit) heads.set(row.recipient, row)
    return [...heads.values()]
  }

  #sendHead(row: OutboxRow, passedOver: Map<string, number>, run: Run): Promise<void> {
    return this.#parts.suspects.try(row, async process => {
      if (!process || run.isStopped) return
      const claimed = await this.#parts.outbox.claim(row, this.#parts.leases.since(row.channelId) ?? 0)
      if (claimed) await this.#send(claimed, process, run.signal)
      else passedOver.set(row.recipient, Date.now() + CLAIMED_ELSEWHERE_MS)
    })
  }

  async #send(claimed: OutboxRow, process: PluginConnection, signal: AbortSignal): Promise<void> {
    const { outbox, log, onDeath } = this.#parts
    const { id, channelId, recipient, text = '', metadata = {} } = claimed
    try {
      const params = { channelId, deliveryId: id, recipient, text, metadata }
      await process.request('channel.send', params, { timeoutMs: SEND_TIMEOUT_MS, signal })
    } catch (error) {
      // Sent again, under the same id, after the next start.
      if (signal.aborted) return
      const failure = readFailure(error)
      if (failure.kind === 'crashed') onDeath(process)
      const verdict = afterFailure(claimed, failure, OUTBOX_RETRY)
      if (verdict.retry) await outbox.retry(claimed, verdict)
      else {
        log.warn({ err: error, channelId, deliveryId: id }, 'a reply is given up')
        await outbox.bury(claimed, verdict.reason)
      }
      return
    }
    await outbox.done(claimed)
  }
}

const earliest = (passedOver: ReadonlyMap<string, number>): number | undefined =>
  passedOver.size === 0 ? undefined : Math.min(...passedOver.values())

/** Resolves with the first of them, or when it is `at`. */
const firstOf = async (events: Promise<void>[], at: number | undefined): Promise<void> => {
  if (at === undefined) return Promise.race(events)
  let timer: NodeJS.Timeout | undefined
  const due = new Promise<void>(resolve => (timer = setTimeout(resolve, Math.max(0, at - Date.now()))))
  await Promise.race([...events, due])
  clearTimeout(timer)
}
