import { isStale, type Holder } from '../../core/lease.js'
import type { Log } from '../../core/log.js'
import { Looks } from '../../core/looks.js'
import type { ScopedHandle } from '../../core/store/collection.js'
import type { OutgoingReply } from './contract.js'
import type { FinalStatus, OwnedTask, TaskRow } from './records.js'

type Sink = (reply: OutgoingReply) => Promise<void>

/** After a failed delivery: 1 s · 2ⁿ, at most 5 minutes, until the task's retention ends. */
const FIRST_BACK_OFF_MS = 1_000
const MAX_BACK_OFF_MS = 300_000
/** A sink has this long; meanwhile, and a little longer, no other gateway tries the same reply, unless the one that does is gone. */
const SINK_TIMEOUT_MS = 30_000
const DELIVERY_LEASE_MS = 45_000
const CONCURRENCY = 16
/** The longest wait before the store is looked at again: others may have left replies behind. */
const MAX_SLEEP_MS = 10_000
/** Hand-overs looked at at once for gateways that are gone. */
const MAX_HANDED_OVER = 500

export const deliveryBackOff = (attempts: number): number => Math.min(MAX_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** Math.min(attempts - 1, 20))

/** Brings replies back to where their messages came from, at least once each, in order within a session. */
export class Replies {
  readonly #tasks: ScopedHandle<TaskRow>
  readonly #holder: Holder
  readonly #log: Log
  readonly #sinks = new Map<string, Sink>()
  readonly #looks = new Looks(() => this.#deliverDue())
  #lookedAt = 0

  constructor(tasks: ScopedHandle<TaskRow>, holder: Holder, log: Log) {
    this.#tasks = tasks
    this.#holder = holder
    this.#log = log
  }

  onReply(kind: string, sink: Sink): () => void {
    if (this.#sinks.has(kind)) throw new Error(`Two plugins take replies of the kind "${kind}"`)
    this.#sinks.set(kind, sink)
    this.wake()
    return () => {
      if (this.#sinks.get(kind) === sink) this.#sinks.delete(kind)
    }
  }

  start(): void {
    this.#looks.start()
  }

  /** Looks for replies now. */
  wake(): void {
    this.#looks.wake()
  }

  /** Waits for deliveries under way. */
  stop(): Promise<void> {
    return this.#looks.stop()
  }

  async #deliverDue(): Promise<number | undefined> {
    try {
      const kinds = [...this.#sinks.keys()]
      if (kinds.length === 0) return undefined
      if (Date.now() - this.#lookedAt >= MAX_SLEEP_MS) await this.#takeBack()
      const pending = { 'delivery.state': 'pending', 'origin.kind': { $in: kinds } }
      const now = new Date().toISOString()
      const due = await this.#tasks.everyone.find(
        { ...pending, 'delivery.nextAt': { $lte: now } },
        { sort: { 'delivery.nextAt': 1 }, limit: CONCURRENCY },
      )
      await Promise.all(due.map(task => this.#deliver(task)))
      const [next] = await this.#tasks.everyone.find(pending, { sort: { 'delivery.nextAt': 1 }, limit: 1 })
      return untilDue(next?.delivery?.nextAt)
    } catch (error) {
      this.#log.error({ err: error }, 'could not look for replies to deliver')
      return MAX_SLEEP_MS
    }
  }

  /** What a gateway that is gone was handing over is due now. */
  async #takeBack(): Promise<void> {
    this.#lookedAt = Date.now()
    const handedOver = { 'delivery.state': 'pending', 'delivery.by': { $nin: [null, this.#holder.id] } }
    for (const task of await this.#tasks.everyone.find(handedOver, { limit: MAX_HANDED_OVER })) {
      const { by, nextAt: until = '' } = task.delivery ?? {}
      if (by && isStale({ by, until })) await this.#change(task, { 'delivery.by': null, 'delivery.nextAt': inMs(0) })
    }
  }

  async #deliver(task: OwnedTask): Promise<void> {
    if (await this.#waitsForEarlier(task)) return
    const attempts = (task.delivery?.attempts ?? 0) + 1
    const mine = await this.#change(task, {
      'delivery.attempts': attempts,
      'delivery.nextAt': inMs(DELIVERY_LEASE_MS),
      'delivery.by': this.#holder.id,
    })
    const sink = this.#sinks.get(task.origin?.kind ?? '')
    if (!mine || !sink) return
    try {
      await withTimeout(sink(replyOf(mine)))
      await this.#change(mine, { 'delivery.state': 'delivered', 'delivery.text': '', 'delivery.by': null })
      await this.#wakeNext(task)
    } catch (error) {
      const nextAt = inMs(deliveryBackOff(attempts))
      this.#log.warn({ err: error, task: task.id, attempts, nextAt }, 'a reply could not be delivered yet')
      await this.#change(mine, { 'delivery.nextAt': nextAt, 'delivery.by': null })
    }
  }

  /** A reply behind one that is still under way is due when that one is. */
  async #waitsForEarlier(task: OwnedTask): Promise<boolean> {
    const filter = { sessionId: task.sessionId, turn: { $lt: task.turn }, 'delivery.state': 'pending' }
    const earlier = await this.#tasks.for(task).findOne(filter, { sort: { turn: 1 } })
    if (!earlier) return false
    await this.#change(task, { 'delivery.nextAt': laterOf(earlier.delivery?.nextAt ?? '', inMs(1)) })
    return true
  }

  async #wakeNext({ tenant, userId, sessionId }: OwnedTask): Promise<void> {
    const tasks = this.#tasks.for({ tenant, userId })
    const next = await tasks.findOne({ sessionId, 'delivery.state': 'pending' }, { sort: { turn: 1 } })
    if (!next) return
    await tasks.updateOne(
      { id: next.id, 'delivery.state': 'pending', 'delivery.nextAt': next.delivery?.nextAt ?? null },
      { $set: { 'delivery.nextAt': inMs(0) } },
    )
    this.wake()
  }

  /** Only while nobody else changed the delivery since it was read. */
  #change(task: OwnedTask, set: Record<string, unknown>): Promise<OwnedTask | null> {
    const { id, delivery } = task
    return this.#tasks.everyone.findOneAndUpdate(
      { id, 'delivery.state': 'pending', 'delivery.nextAt': delivery?.nextAt ?? null },
      { $set: set },
    )
  }
}

const untilDue = (nextAt: string | undefined): number =>
  nextAt === undefined ? MAX_SLEEP_MS : Math.min(MAX_SLEEP_MS, Math.max(0, Date.parse(nextAt) - Date.now()))

const inMs = (ms: number): string => new Date(Date.now() + ms).toISOString()

const laterOf = (a: string, b: string): string => (a > b ? a : b)

const replyOf = ({ id, sessionId, tenant, userId, origin, status, delivery }: OwnedTask): OutgoingReply => ({
  taskId: id,
  sessionId,
  owner: { tenant, userId },
  origin: origin ?? { kind: '', data: {} },
  status: status as FinalStatus,
  text: delivery?.text ?? '',
})

const withTimeout = async (work: Promise<void>): Promise<void> => {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(new Error(`no answer within ${SINK_TIMEOUT_MS / 1000} s`)), SINK_TIMEOUT_MS)
  })
  try {
    await Promise.race([work, late])
  } finally {
    clearTimeout(timer)
  }
}
