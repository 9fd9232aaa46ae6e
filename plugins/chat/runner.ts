import { GatewayError } from '../../core/errors.js'
import { isStale, RENEW_MS, type Holder } from '../../core/lease.js'
import type { Log } from '../../core/log.js'
import type { Filter, ScopedHandle } from '../../core/store/collection.js'
import { TaskInterrupted } from '../tools/contract.js'
import type { TaskLedger } from './ledger.js'
import type { Outcome, OwnedTask, TaskRow } from './records.js'
import { failedOutcome } from './outcomes.js'

/** A task whose runs ended without an outcome (the gateway died under it) this often is given up. */
const MAX_ATTEMPTS = 3
/** How often a gateway looks for what others left behind, in milliseconds. */
const SCAN_MS = 5_000
const SCAN_BATCH = 32
const MAX_HELD = 1_000
/** Tasks that wait for a person and take no place; those beyond it take theirs. */
const MAX_RESTING = 256
/** Rounds of one look for work; every round rules out at least one session. */
const MAX_ROUNDS = 100

/** Why a run ends before its outcome, when another than this run decides on it. */
class TaskTaken extends Error {
  constructor() {
    super('The task was cancelled')
  }
}

/** Waits for a person on behalf of a task. */
export type Resting = <T>(work: () => Promise<T>) => Promise<T>

interface RunnerNeeds {
  ledger: TaskLedger
  tasks: ScopedHandle<TaskRow>
  holder: Holder
  log: Log
  /** Tasks run at the same time by this gateway. */
  concurrency: () => number
  /** How long running tasks may go on when the gateway stops, in milliseconds. */
  stopGraceMs: () => number
  run: (task: OwnedTask, signal: AbortSignal, resting: Resting) => Promise<Outcome>
  /** After a task ended for good. */
  onSettled: () => void
}

interface Run {
  task: OwnedTask
  abort: AbortController
  done: Promise<void>
}

/**
 * Runs what is queued: a bounded number at a time, of each session the first unfinished one. What a gateway runs it
 * holds by a lease that it renews; what a dead gateway held is taken over.
 */
export class TaskRunner {
  readonly #needs: RunnerNeeds
  readonly #running = new Map<string, Run>()
  /** Tasks that wait for a person, with how many of their tools do. */
  readonly #resting = new Map<string, number>()
  #timers: NodeJS.Timeout[] = []
  /** Work on a timer, by name: one of each at a time. */
  readonly #chores = new Map<string, Promise<void>>()
  #scanning: Promise<void> | undefined
  #again = false
  #open = false

  constructor(needs: RunnerNeeds) {
    this.#needs = needs
  }

  start(): void {
    this.#open = true
    this.#timers = [
      setInterval(() => this.#chore('look for unfinished tasks', () => this.#recover()), SCAN_MS),
      setInterval(() => this.#chore('renew the leases of running tasks', () => this.#renew()), RENEW_MS),
    ]
    this.#chore('look for unfinished tasks', () => this.#recover())
  }

  /** Looks for work now. Calls during a look make one more. */
  wake(): void {
    if (!this.#open) return
    this.#again = true
    this.#scanning ??= this.#guard('look for queued tasks', () => this.#scan()).finally(() => {
      this.#scanning = undefined
      if (this.#again) this.wake()
    })
  }

  /** Ends the run of a task that was decided elsewhere, if it runs here. */
  abort(id: string): void {
    this.#running.get(id)?.abort.abort(new TaskTaken())
  }

  /** Takes no more work, lets what runs finish for a while, then puts the rest back into the queue. */
  async stop(): Promise<void> {
    this.#open = false
    for (const timer of this.#timers) clearInterval(timer)
    await Promise.all([this.#scanning, ...this.#chores.values()])
    const grace = setTimeout(() => {
      for (const { abort } of this.#running.values()) abort.abort(new TaskInterrupted())
    }, this.#needs.stopGraceMs())
    while (this.#running.size > 0) await Promise.allSettled([...this.#running.values()].map(({ done }) => done))
    clearTimeout(grace)
  }

  get #free(): number {
    return this.#open ? this.#needs.concurrency() - this.#running.size + Math.min(this.#resting.size, MAX_RESTING) : 0
  }

  async #scan(): Promise<void> {
    this.#again = false
    const { tasks, ledger } = this.#needs
    const passed = new Set([...this.#running.values()].map(({ task }) => task.sessionId))
    for (let round = 0; round < MAX_ROUNDS && this.#free > 0; round += 1) {
      const filter: Filter<OwnedTask> = { status: 'queued', ...(passed.size > 0 ? { sessionId: { $nin: [...passed] } } : {}) }
      const waiting = await tasks.everyone.find(filter, { sort: { createdAt: 1 }, limit: SCAN_BATCH })
      if (waiting.length === 0) return
      for (const task of waiting) {
        if (this.#free <= 0) return
        if (passed.has(task.sessionId)) continue
        passed.add(task.sessionId)
        const claimed = await ledger.claimNext(task)
        if (claimed) this.#begin(claimed)
      }
    }
  }

  /** Goes on with what gateways that are gone were running. */
  async #recover(): Promise<void> {
    const { tasks, ledger } = this.#needs
    const held = await tasks.everyone.find({ status: { $in: ['running', 'settling'] } }, { sort: { createdAt: 1 }, limit: MAX_HELD })
    for (const task of held) {
      if (this.#free <= 0) break
      if (this.#running.has(task.id) || (task.lease && !isStale(task.lease))) continue
      const taken = await ledger.takeOver(task)
      if (!taken) continue
      this.#needs.log.warn({ task: task.id, attempts: taken.attempts }, 'goes on with a task whose gateway is gone')
      this.#begin(taken)
    }
    this.wake()
  }

  #begin(task: OwnedTask): void {
    const abort = new AbortController()
    const run: Run = { task, abort, done: Promise.resolve() }
    this.#running.set(task.id, run)
    run.done = this.#guard(`run the task ${task.id}`, () => this.#finish(task, abort.signal)).finally(() => {
      this.#running.delete(task.id)
      this.#resting.delete(task.id)
      this.wake()
    })
  }

  async #finish(task: OwnedTask, signal: AbortSignal): Promise<void> {
    const { ledger } = this.#needs
    let decided: OwnedTask | null = task
    if (!task.outcome) {
      const outcome = await this.#outcome(task, signal)
      if (!outcome) return
      decided = await ledger.decide(task.id, outcome)
    }
    if (!decided) return
    await ledger.settle(decided)
    this.#needs.onSettled()
  }

  /** `undefined`: the run ended without one. */
  async #outcome(task: OwnedTask, signal: AbortSignal): Promise<Outcome | undefined> {
    const { log, ledger, run } = this.#needs
    if (task.attempts > MAX_ATTEMPTS)
      return failedOutcome('internal_error', `The gateway ended ${MAX_ATTEMPTS} times while it worked on this: send it again`)
    try {
      const outcome = await run(task, signal, work => this.#rest(task.id, work))
      signal.throwIfAborted()
      return outcome
    } catch (error) {
      if (signal.aborted) {
        if (signal.reason instanceof TaskInterrupted) await ledger.release(task.id)
        return undefined
      }
      if (error instanceof GatewayError) {
        log.warn({ task: task.id, code: error.code, reason: error.message }, 'a task failed')
        return failedOutcome(error.code, error.message)
      }
      log.error({ err: error, task: task.id }, 'a task failed unexpectedly')
      return failedOutcome('internal_error', 'An unexpected error: the log of the gateway says more')
    }
  }

  async #rest<T>(id: string, work: () => Promise<T>): Promise<T> {
    this.#resting.set(id, (this.#resting.get(id) ?? 0) + 1)
    this.wake()
    try {
      return await work()
    } finally {
      const left = (this.#resting.get(id) ?? 0) - 1
      if (left > 0) this.#resting.set(id, left)
      else this.#resting.delete(id)
    }
  }

  async #renew(): Promise<void> {
    for (const [id, { abort }] of this.#running) {
      if (!(await this.#needs.ledger.renew(id)) && !(await this.#isSettling(id))) abort.abort(new TaskTaken())
    }
  }

  async #isSettling(id: string): Promise<boolean> {
    const task = await this.#needs.tasks.everyone.findOne({ id })
    return task?.status === 'settling' && task.lease?.by === this.#needs.holder.id
  }

  #chore(what: string, work: () => Promise<void>): void {
    if (this.#chores.has(what)) return
    this.#chores.set(
      what,
      this.#guard(what, work).finally(() => this.#chores.delete(what)),
    )
  }

  /** A failure here is the store's: it is logged, and the next look or the lease's end brings the work back. */
  async #guard(what: string, work: () => Promise<void>): Promise<void> {
    try {
      await work()
    } catch (error) {
      this.#needs.log.error({ err: error }, `could not ${what}`)
    }
  }
}
