import type { ErrorCode } from '../../core/errors.js'
import type { Lease } from '../../core/lease.js'
import type { Owned, Sort } from '../../core/store/collection.js'
import type { Origin } from './contract.js'

export interface SessionRow {
  id: string
  title: string
  agentId: string
  /** One conversation of a channel: unique for its owner. */
  sessionKey?: string
  forkedFrom?: { sessionId: string; messageId?: string }
  /** The highest turn that was answered or copied here. */
  turns: number
  createdAt: string
  updatedAt: string
}

export interface MessageRow {
  id: string
  sessionId: string
  /** The task's place in the session, from 1, and the message's place in the turn, from 0 for the user's. */
  turn: number
  part: number
  /** Sorts a session's messages as they came. */
  order: string
  role: 'user' | 'assistant' | 'tool' | 'system'
  content: string
  attachments?: string[]
  taskId?: string
  createdAt: string
}

/** `settling`: the outcome is decided and on disk, and its messages are being written. Shown as `running`. */
type TaskStatus = 'queued' | 'running' | 'settling' | FinalStatus
export type FinalStatus = 'succeeded' | 'failed' | 'cancelled'

interface TaskError {
  code: ErrorCode
  message: string
}

/** How a task ended, and the messages that say so in its session. */
export interface Outcome {
  status: FinalStatus
  messages: Pick<MessageRow, 'role' | 'content'>[]
  /** The reply for the message's origin. */
  text: string
  error?: TaskError
  at: string
}

export interface TaskRow {
  id: string
  sessionId: string
  agentId: string
  /** Unique in its session, without holes: turn n exists before n + 1 is given out. */
  turn: number
  title: string
  status: TaskStatus
  stage: 'active' | 'done'
  /** The user's message. It is written here first, with the task, and copied into the session. */
  message: { content: string; attachments?: string[] }
  /** The session is made by this task. */
  opensSession: boolean
  idempotencyKey?: string
  origin?: Origin
  permissions?: string[]
  attempts: number
  /** Who runs it. */
  lease?: Lease
  outcome?: Outcome
  error?: TaskError
  replyMessageId?: string
  /** `by`: the gateway that hands it over, until `nextAt`. */
  delivery?: { state: 'pending' | 'delivered'; attempts: number; nextAt: string; text: string; by?: string | null }
  createdAt: string
  updatedAt: string
  startedAt?: string
  finishedAt?: string
  expiresAt?: string
}

export type OwnedTask = Owned<TaskRow>

/** Ids that follow from the task's: written again after a crash, they are the same message. */
export const messageIdOf = (taskId: string, part: number): string =>
  part === 0 ? taskId.replace(/^tsk_/, 'msg_') : `${taskId.replace(/^tsk_/, 'msg_')}_${part}`

/** A message of a task's turn. */
export const messageOf = (
  task: Pick<TaskRow, 'id' | 'sessionId' | 'turn'>,
  part: number,
  { role, content, createdAt, attachments }: Pick<MessageRow, 'role' | 'content' | 'createdAt' | 'attachments'>,
): MessageRow => ({
  id: messageIdOf(task.id, part),
  sessionId: task.sessionId,
  turn: task.turn,
  part,
  order: `${createdAt} ${String(task.turn).padStart(8, '0')}.${String(part).padStart(4, '0')}`,
  role,
  content,
  ...(attachments && attachments.length > 0 ? { attachments } : {}),
  taskId: task.id,
  createdAt,
})

/** Oldest first, as a session's messages are read. */
export const MESSAGE_ORDER: Sort = { order: 1 }
