import type { Holder } from '../../core/lease.js'
import { DuplicateKey, type ScopedHandle } from '../../core/store/collection.js'
import { messageIdOf, messageOf, type MessageRow, type Outcome, type OwnedTask, type SessionRow, type TaskRow } from './records.js'

interface Handles {
  tasks: ScopedHandle<TaskRow>
  sessions: ScopedHandle<SessionRow>
  messages: ScopedHandle<MessageRow>
}

/**
 * The life of a task on disk. There are no transactions over several documents, so the task is the one document
 * that decides: it is inserted with the user's message in it, and its outcome is one conditional update that only
 * the lease's holder can make. Everything else (session, messages, final status) follows from the task under ids
 * that follow from its id, and is written again after a crash until it is whole.
 */
export class TaskLedger {
  readonly #tasks: ScopedHandle<TaskRow>
  readonly #sessions: ScopedHandle<SessionRow>
  readonly #messages: ScopedHandle<MessageRow>
  readonly #holder: Holder
  readonly #retentionDays: () => number

  constructor({ tasks, sessions, messages }: Handles, holder: Holder, retentionDays: () => number) {
    this.#tasks = tasks
    this.#sessions = sessions
    this.#messages = messages
    this.#holder = holder
    this.#retentionDays = retentionDays
  }

  /** Writes the session, if this task opens it, and the user's message. Harmless to repeat. */
  async place(task: OwnedTask): Promise<void> {
    const { id, turn, agentId, sessionId, title, createdAt, message, opensSession } = task
    if (opensSession) {
      const session: SessionRow = { id: sessionId, title, agentId, turns: 0, createdAt, updatedAt: createdAt }
      await unlessThere(this.#sessions.for(task).insertOne(session))
    }
    await unlessThere(this.#messages.for(task).insertOne(messageOf({ id, sessionId, turn }, 0, { role: 'user', createdAt, ...message })))
  }

  /** Takes the session's first unfinished task, when nobody works on that session. */
  async claimNext(task: OwnedTask): Promise<OwnedTask | null> {
    const head = await this.#tasks.for(task).findOne({ sessionId: task.sessionId, stage: 'active' }, { sort: { turn: 1 } })
    if (head?.status !== 'queued') return null
    const now = new Date().toISOString()
    return this.#tasks.everyone.findOneAndUpdate(
      { id: head.id, status: 'queued' },
      { $set: { status: 'running', lease: this.#holder.lease(), startedAt: now, updatedAt: now }, $inc: { attempts: 1 } },
    )
  }

  /** Takes a task whose holder is gone. `null`: someone else was faster, or the holder came back. */
  takeOver({ id, lease }: OwnedTask): Promise<OwnedTask | null> {
    return this.#tasks.everyone.findOneAndUpdate(
      { id, 'lease.by': lease?.by ?? null, 'lease.until': lease?.until ?? null },
      { $set: { lease: this.#holder.lease() }, $inc: { attempts: 1 } },
    )
  }

  /** Whether the task is still this gateway's to run; if so, for another while. */
  renew(id: string): Promise<boolean> {
    return this.#tasks.everyone.updateOne({ id, status: 'running', 'lease.by': this.#holder.id }, { $set: { lease: this.#holder.lease() } })
  }

  /** Puts a task back that this gateway will not finish: it counts as not tried. */
  release(id: string): Promise<boolean> {
    return this.#tasks.everyone.updateOne(
      { id, status: 'running', 'lease.by': this.#holder.id },
      { $set: { status: 'queued', updatedAt: new Date().toISOString() }, $unset: { lease: '' }, $inc: { attempts: -1 } },
    )
  }

  /** Decides how a task that this gateway runs ended. `null`: it was taken away (cancelled), and the outcome is dropped. */
  decide(id: string, outcome: Outcome): Promise<OwnedTask | null> {
    return this.#tasks.everyone.findOneAndUpdate(
      { id, status: 'running', 'lease.by': this.#holder.id },
      { $set: { status: 'settling', outcome, lease: this.#holder.lease(), updatedAt: outcome.at } },
    )
  }

  /** Decides that a task that waits or runs, here or on another gateway, is cancelled. `null`: it is too late for that. */
  decideCancelled(id: string, outcome: Outcome): Promise<OwnedTask | null> {
    return this.#tasks.everyone.findOneAndUpdate(
      { id, status: { $in: ['queued', 'running'] } },
      { $set: { status: 'settling', outcome, lease: this.#holder.lease(), updatedAt: outcome.at } },
    )
  }

  /** Writes what the decided outcome says, then ends the task. Harmless to repeat. */
  async settle(task: OwnedTask): Promise<OwnedTask | null> {
    const { id, outcome } = task
    if (!outcome) throw new Error(`The task ${id} has no outcome to settle`)
    const written = outcome.messages.map((message, index) => messageOf(task, index + 1, { ...message, createdAt: outcome.at }))
    for (const message of written) await unlessThere(this.#messages.for(task).insertOne(message))
    const session = await this.#sessions
      .for(task)
      .updateOne({ id: task.sessionId }, { $set: { updatedAt: outcome.at, agentId: task.agentId }, $max: { turns: task.turn } })
    // Deleted meanwhile: nothing of it may stay behind.
    if (!session) await this.#messages.for(task).deleteMany({ sessionId: task.sessionId })
    return this.#tasks.everyone.findOneAndUpdate({ id, status: 'settling' }, this.#ending(task, outcome))
  }

  #ending(task: OwnedTask, outcome: Outcome) {
    const { status, error, at, text, messages } = outcome
    const expiresAt = new Date(Date.parse(at) + this.#retentionDays() * 86_400_000).toISOString()
    const delivery = task.origin ? { delivery: { state: 'pending', attempts: 0, nextAt: at, text } } : {}
    const reply = messages.length > 0 ? { replyMessageId: messageIdOf(task.id, messages.length) } : {}
    return {
      $set: { status, stage: 'done', finishedAt: at, updatedAt: at, expiresAt, ...delivery, ...reply, ...(error ? { error } : {}) },
      $unset: { lease: '', outcome: '' },
    }
  }
}

/** An insert that may have been made already. */
const unlessThere = async (insert: Promise<void>): Promise<void> => {
  try {
    await insert
  } catch (error) {
    if (!(error instanceof DuplicateKey)) throw error
  }
}
