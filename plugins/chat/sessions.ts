import { notFound } from '../../core/errors.js'
import { newId } from '../../core/id.js'
import type { Owner, Page, PageOptions, ScopedHandle } from '../../core/store/collection.js'
import { MESSAGE_ORDER, type MessageRow, type SessionRow } from './records.js'

/** A fork copies this many messages at most, the newest ones. */
const MAX_FORKED_MESSAGES = 2_000
const COPY_BATCH = 200

/** A user's conversations. */
export class Sessions {
  readonly #sessions: ScopedHandle<SessionRow>
  readonly #messages: ScopedHandle<MessageRow>
  /** Ends the session's tasks, before the session goes. */
  readonly #endTasks: (owner: Owner, sessionId: string) => Promise<void>

  constructor(
    sessions: ScopedHandle<SessionRow>,
    messages: ScopedHandle<MessageRow>,
    endTasks: (owner: Owner, sessionId: string) => Promise<void>,
  ) {
    this.#sessions = sessions
    this.#messages = messages
    this.#endTasks = endTasks
  }

  list(owner: Owner, agentId: string | undefined, page: PageOptions): Promise<Page<SessionRow>> {
    return this.#sessions.for(owner).page(agentId === undefined ? {} : { agentId }, { ...page, sort: { updatedAt: -1 } })
  }

  async get(owner: Owner, id: string): Promise<SessionRow> {
    const session = await this.#sessions.for(owner).findOne({ id })
    if (!session) throw notFound('Session')
    return session
  }

  async messages(owner: Owner, id: string, order: 'asc' | 'desc', page: PageOptions): Promise<Page<MessageRow>> {
    await this.get(owner, id)
    return this.#messages.for(owner).page({ sessionId: id }, { ...page, sort: order === 'asc' ? MESSAGE_ORDER : { order: -1 } })
  }

  /** A new session that begins with this one's messages, up to `messageId` when given. */
  async fork(owner: Owner, id: string, messageId: string | undefined): Promise<SessionRow> {
    const source = await this.get(owner, id)
    const copied = await this.#copyable(owner, id, messageId)
    const now = new Date().toISOString()
    const fork: SessionRow = {
      id: newId('ses'),
      title: source.title,
      agentId: source.agentId,
      forkedFrom: { sessionId: id, ...(messageId === undefined ? {} : { messageId }) },
      turns: copied.reduce((highest, { turn }) => Math.max(highest, turn), 0),
      createdAt: now,
      updatedAt: now,
    }
    const messages = this.#messages.for(owner)
    // The session comes last: it is there once it is whole.
    for (let start = 0; start < copied.length; start += COPY_BATCH)
      await messages.insertMany(copied.slice(start, start + COPY_BATCH).map(message => copyInto(fork.id, message)))
    await this.#sessions.for(owner).insertOne(fork)
    return fork
  }

  /** Cancels its tasks and removes it with its messages. */
  async remove(owner: Owner, id: string): Promise<void> {
    await this.get(owner, id)
    await this.#endTasks(owner, id)
    await this.#sessions.for(owner).deleteOne({ id })
    await this.#messages.for(owner).deleteMany({ sessionId: id })
  }

  async #copyable(owner: Owner, sessionId: string, messageId: string | undefined): Promise<MessageRow[]> {
    const messages = this.#messages.for(owner)
    const last = messageId === undefined ? undefined : await messages.findOne({ id: messageId, sessionId })
    if (last === null) throw notFound('Message')
    const filter = { sessionId, ...(last ? { order: { $lte: last.order } } : {}) }
    const newestFirst = await messages.find(filter, { sort: { order: -1 }, limit: MAX_FORKED_MESSAGES })
    return newestFirst.reverse()
  }
}

const copyInto = (sessionId: string, { turn, part, order, role, content, attachments, createdAt }: MessageRow): MessageRow => ({
  id: newId('msg'),
  sessionId,
  turn,
  part,
  order,
  role,
  content,
  ...(attachments ? { attachments } : {}),
  createdAt,
})
