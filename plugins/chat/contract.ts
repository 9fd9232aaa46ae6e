import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

/** Where a message came from, when not from the API: the reply goes back through the sink registered for `kind`. */
export interface Origin {
  kind: string
  /** Plain data of the sink's own, for example the channel, the recipient and the message's metadata. */
  data: Record<string, unknown>
}

export interface NewMessage {
  message: string
  agentId?: string
  sessionId?: string
  /** Instead of `sessionId`: the owner's session with this key is used, or made: one conversation of a channel. */
  sessionKey?: string
  /** The same key twice is one message: the first answer is returned again. */
  idempotencyKey?: string
  /** Document ids. */
  attachments?: string[]
  origin?: Origin
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
  /** The assistant's text; for a failed task a sentence that says so. */
  text: string
}

export interface Chat {
  /** Stores the message and its task durably, then runs it in the background. `not_found` for a foreign agent or session. */
  send(owner: Owner, message: NewMessage): Promise<Accepted>
  /**
   * Takes replies of one kind of origin. Called at least once for each finished task, again after a restart until it
   * resolved once: the sink makes that one reply by the task's id. Returns the undo.
   */
  onReply(kind: string, sink: (reply: OutgoingReply) => Promise<void>): () => void
}

export const chat = service<Chat>('chat')
