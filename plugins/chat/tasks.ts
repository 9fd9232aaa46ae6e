import { conflict, notFound } from '../../core/errors.js'
import type { Filter, Owner, Page, PageOptions, ScopedHandle } from '../../core/store/collection.js'
import type { TaskLedger } from './ledger.js'
import { cancelledOutcome } from './outcomes.js'
import type { FinalStatus, TaskRow } from './records.js'

const CANCELLED_AT_ONCE = 100

interface TaskNeeds {
  tasks: ScopedHandle<TaskRow>
  ledger: TaskLedger
  /** Ends the task's run, if this gateway runs it. */
  abort: (id: string) => void
  onSettled: () => void
}

/** A user's tasks, as they are looked at and cancelled. */
export class Tasks {
  readonly #needs: TaskNeeds

  constructor(needs: TaskNeeds) {
    this.#needs = needs
  }

  active(owner: Owner, page: PageOptions): Promise<Page<TaskRow>> {
    return this.#needs.tasks.for(owner).page({ stage: 'active' }, page)
  }

  history(owner: Owner, status: FinalStatus | undefined, page: PageOptions): Promise<Page<TaskRow>> {
    return this.#needs.tasks.for(owner).page({ stage: 'done', ...(status ? { status } : {}) }, page)
  }

  async get(owner: Owner, id: string): Promise<TaskRow> {
    const task = await this.#needs.tasks.for(owner).findOne({ id })
    if (!task) throw notFound('Task')
    return task
  }

  /** Cancelled already is fine; any other end is a `conflict`. */
  async cancel(owner: Owner, id: string): Promise<TaskRow> {
    const { ledger } = this.#needs
    const task = await this.get(owner, id)
    // Cancelled right behind its acceptance, it still shows what was asked.
    if (task.status === 'queued') await ledger.place({ ...task, tenant: owner.tenant, userId: owner.userId })
    const cancelled = await this.#cancel(id)
    if (cancelled) return cancelled
    const now = await this.get(owner, id)
    if (now.status !== 'cancelled')
      throw conflict(`The task ${now.stage === 'done' ? now.status : 'is about to end'} already: there is nothing to cancel`)
    return now
  }

  /** Cancels everything unfinished of a session. */
  async endSession(owner: Owner, sessionId: string): Promise<void> {
    const unfinished = await this.#needs.tasks.for(owner).find({ sessionId, stage: 'active' }, { sort: { turn: -1 } })
    for (const { id } of unfinished) await this.#cancel(id)
  }

  /** Cancels everything unfinished of an owner who is gone. */
  async endAll(owner: Owner): Promise<void> {
    const open = { status: { $in: ['queued', 'running'] } }
    for (let some = await this.#open(owner, open); some.length > 0; some = await this.#open(owner, open))
      for (const { id } of some) await this.#cancel(id)
  }

  #open(owner: Owner, open: Filter<TaskRow>): Promise<TaskRow[]> {
    return this.#needs.tasks.for(owner).find(open, { sort: { createdAt: -1 }, limit: CANCELLED_AT_ONCE })
  }

  async #cancel(id: string): Promise<TaskRow | null> {
    const { ledger, abort, onSettled } = this.#needs
    const decided = await ledger.decideCancelled(id, cancelledOutcome())
    if (!decided) return null
    abort(id)
    const settled = await ledger.settle(decided)
    onSettled()
    return settled
  }
}
