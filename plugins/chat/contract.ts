import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

/** The longest message, in characters. */
export const MAX_MESSAGE_LENGTH = 100_000
export const MAX_ATTACHMENTS = 20

/** Where a message came from, when not from the API: the reply goes back through the sink registered for `kind`. */
export interface Origin {
  kind: string
  /** Plain data of the sink's own, for example the channel, the recipient and the message's metadata. */
  data: Record<string, unknown>
}

export interface NewMessage {
  message: string
  /** Absent: the session's agent, or the owner's default. */
  agentId?: string
  sessionId?: string
  /** Instead of `sessionId`: the owner's session with this key is used, or made: one conversation of a channel. */
  sessionKey?: string
  /** The same key twice is one message: the first answer is returned again. */
  idempotencyKey?: string
  /** Document ids. */
  attachments?: string[]
  origin?: Origin
  /** What the sender may do at most, where that is less than what the owner may; absent: all of that. */
  permissions?: readonly string[]
}

export interface Accepted {
  taskId: string
  sessionId: string
  messageId: string
}

/** A finished task's answer, on its way back to where the message came from. */
export interface OutgoingReply {
  taskId: string
  sessionId: string
  owner: Owner
  origin: Origin
  status: 'succeeded' | 'failed' | 'cancelled'
  /** The assistant's text; for a failed or cancelled task a sentence that says so. */
  text: string
}

/** Gives the texts of attached documents. */
export interface AttachmentSource {
  /** `not_found` for a foreign id. */
  text(owner: Owner, id: string, maxLength: number): Promise<{ name: string; text: string | null }>
}

export interface Chat {
  /**
   * Stores the message and its task durably, then runs it in the background; messages of one session are answered
   * one at a time, in order. `not_found` for a foreign agent, session or document; `upstream_unavailable` when the
   * agent's model has no provider; `rate_limited` when too many of the owner's messages wait; `conflict` when the
   * session's agent was deleted; `validation_failed` for a blank or too long message.
   */
  send(owner: Owner, message: NewMessage): Promise<Accepted>
  /**
   * Takes replies of one kind of origin; one sink a kind. Called at least once for each finished task, in order
   * within a session, again with back-off and after a restart until it resolved once: the sink makes that one reply
   * by the task's id. A call that takes longer than 30 s counts as failed. Returns the undo.
   */
  onReply(kind: string, sink: (reply: OutgoingReply) => Promise<void>): () => void
  /** Where attachments' texts come from; without a source, messages with attachments are refused. Returns the undo. */
  attachmentSource(source: AttachmentSource): () => void
}

export const chat = service<Chat>('chat')
