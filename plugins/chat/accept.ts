import { conflict, GatewayError, notFound, rateLimited, serviceUnavailable, validationFailed } from '../../core/errors.js'
import { newId } from '../../core/id.js'
import { DuplicateKey, type Owner, type ScopedHandle } from '../../core/store/collection.js'
import type { AgentProfile, Agents } from '../agents/contract.js'
import type { Models } from '../models/contract.js'
import type { Attachments } from './attachments.js'
import { MAX_MESSAGE_LENGTH, type NewMessage } from './contract.js'
import type { TaskLedger } from './ledger.js'
import type { OwnedTask, SessionRow, TaskRow } from './records.js'

const MAX_TITLE_LENGTH = 80
/** Messages that reach one session at the same moment race for its next turn; each round one of them wins. */
const MAX_TURN_RACES = 64
/** What a caller with too many waiting messages is told to wait. */
const FULL_RETRY_SECONDS = 5

interface AcceptNeeds {
  agents: Agents
  models: Models
  attachments: Attachments
  ledger: TaskLedger
  sessions: ScopedHandle<SessionRow>
  tasks: ScopedHandle<TaskRow>
  /** Unfinished tasks of one user. */
  maxPending: () => number
}

type Target = Pick<TaskRow, 'sessionId' | 'opensSession'> & { turns: number; agent: AgentProfile }

/** From a message to a task on disk. */
export class Acceptance {
  readonly #needs: AcceptNeeds

  constructor(needs: AcceptNeeds) {
    this.#needs = needs
  }

  /** The message's task, with the message and its session on disk. */
  async accept(owner: Owner, message: NewMessage): Promise<OwnedTask> {
    const known = await this.#known(owner, message.idempotencyKey)
    if (known) return known
    await this.#check(owner, message)
    const target = await this.#target(owner, message)
    this.#needs.models.check(target.agent.model)
    const task = await this.#insert(owner, message, target)
    await this.#needs.ledger.place(task)
    return task
  }

  async #known(owner: Owner, idempotencyKey: string | undefined): Promise<OwnedTask | null> {
    if (idempotencyKey === undefined) return null
    const task = await this.#needs.tasks.for(owner).findOne({ idempotencyKey })
    if (!task) return null
    const known = owned(owner, task)
    // The first attempt may have ended right behind the insert.
    if (task.stage === 'active') await this.#needs.ledger.place(known)
    return known
  }

  async #check(owner: Owner, { message, attachments = [] }: NewMessage): Promise<void> {
    if (message.trim() === '') throw validationFailed([{ path: 'message', message: 'is blank' }])
    if (message.length > MAX_MESSAGE_LENGTH)
      throw validationFailed([{ path: 'message', message: `is longer than ${MAX_MESSAGE_LENGTH} characters` }])
    await this.#needs.attachments.check(owner, attachments)
    const pending = await this.#needs.tasks.for(owner).count({ stage: 'active' })
    if (pending >= this.#needs.maxPending())
      throw rateLimited(FULL_RETRY_SECONDS, `${pending} of your messages still wait for their answer`)
  }

  /** The session and the agent that the message goes to. */
  async #target(owner: Owner, message: NewMessage): Promise<Target> {
    const { agents, sessions } = this.#needs
    const { agentId, sessionId, sessionKey } = message
    const wanted = agentId === undefined ? undefined : await agents.get(owner, agentId)
    if (sessionKey !== undefined && sessionId === undefined) return this.#keyedTarget(owner, sessionKey, message, wanted)
    if (sessionId === undefined)
      return { sessionId: newId('ses'), opensSession: true, turns: 0, agent: wanted ?? (await agents.default(owner)) }
    const session = await sessions.for(owner).findOne({ id: sessionId })
    if (!session) throw notFound('Session')
    const agent = wanted ?? (await this.#agentOf(owner, session))
    if (!agent) throw conflict("The session's agent was deleted: send agentId to go on with another agent")
    return { sessionId, opensSession: false, turns: session.turns, agent }
  }

  /** A conversation of a channel goes on with the default agent when its own was deleted: nobody there could choose. */
  async #keyedTarget(owner: Owner, sessionKey: string, { message }: NewMessage, wanted: AgentProfile | undefined): Promise<Target> {
    const { agents } = this.#needs
    const sessions = this.#needs.sessions.for(owner)
    let session = await sessions.findOne({ sessionKey })
    if (!session) {
      const agent = wanted ?? (await agents.default(owner))
      const now = new Date().toISOString()
      const made: SessionRow = {
        id: newId('ses'),
        title: titleOf(message),
        agentId: agent.id,
        sessionKey,
        turns: 0,
        createdAt: now,
        updatedAt: now,
      }
      try {
        await sessions.insertOne(made)
        session = made
      } catch (error) {
        session = error instanceof DuplicateKey ? await sessions.findOne({ sessionKey }) : null
        if (!session) throw error
      }
    }
    const agent = wanted ?? (await this.#agentOf(owner, session)) ?? (await agents.default(owner))
    return { sessionId: session.id, opensSession: false, turns: session.turns, agent }
  }

  async #agentOf(owner: Owner, { agentId }: SessionRow): Promise<AgentProfile | null> {
    try {
      return await this.#needs.agents.get(owner, agentId)
    } catch (error) {
      if (error instanceof GatewayError && error.code === 'not_found') return null
      throw error
    }
  }

  /** The commit: one insert holds the message and its task. Turns have no holes, so the first unfinished one is never overtaken. */
  async #insert(owner: Owner, message: NewMessage, target: Target): Promise<OwnedTask> {
    const tasks = this.#needs.tasks.for(owner)
    for (let race = 0; race < MAX_TURN_RACES; race += 1) {
      const last = await tasks.findOne({ sessionId: target.sessionId }, { sort: { turn: -1 } })
      const task = newTask(message, target, Math.max(last?.turn ?? 0, target.turns) + 1)
      try {
        await tasks.insertOne(task)
        return owned(owner, task)
      } catch (error) {
        if (!(error instanceof DuplicateKey)) throw error
        const known = await this.#known(owner, message.idempotencyKey)
        if (known) return known
      }
    }
    throw serviceUnavailable('Too many messages reach this session at once: send them one after the other', 1)
  }
}

const newTask = ({ message, attachments, idempotencyKey, origin, permissions }: NewMessage, target: Target, turn: number): TaskRow => {
  const now = new Date().toISOString()
  return {
    id: newId('tsk'),
    sessionId: target.sessionId,
    agentId: target.agent.id,
    turn,
    title: titleOf(message),
    status: 'queued',
    stage: 'active',
    message: { content: message, ...(attachments && attachments.length > 0 ? { attachments } : {}) },
    opensSession: target.opensSession,
    ...(idempotencyKey === undefined ? {} : { idempotencyKey }),
    ...(origin ? { origin } : {}),
    ...(permissions === undefined ? {} : { permissions: [...permissions] }),
    attempts: 0,
    createdAt: now,
    updatedAt: now,
  }
}

const owned = ({ tenant, userId }: Owner, task: TaskRow): OwnedTask => ({ ...task, tenant, userId })

const titleOf = (message: string): string => {
  const line = message.trim().replace(/\s+/g, ' ')
  return line.length > MAX_TITLE_LENGTH ? `${line.slice(0, MAX_TITLE_LENGTH - 1)}…` : line
}
