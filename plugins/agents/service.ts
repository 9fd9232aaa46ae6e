import { conflict, notFound } from '../../core/errors.js'
import { newId } from '../../core/id.js'
import { DuplicateKey, type Owner, type Page, type PageOptions, type ScopedHandle } from '../../core/store/collection.js'
import type { AgentProfile, Agents } from './contract.js'

export interface AgentRow extends AgentProfile {
  /** Set on the agent made on first use: unique for an owner, so that two first uses at once make one agent. */
  slot?: 'default'
}

/** The texts of an agent, by the name of their route. */
export type AgentText = 'soul' | 'boot' | 'heartbeat'

/** Fields as a client sends them; `null` removes an optional one. */
export interface AgentChanges {
  name?: string | undefined
  description?: string | null | undefined
  model?: string | null | undefined
  instructions?: string | null | undefined
}

const MAX_AGENTS = 500

/**
 * What a new agent may use: only what belongs to its user and changes nothing outside the gateway. Whatever acts
 * on machines or other services has to be allowed by name.
 */
const DEFAULT_TOOLS = ['memory.*', 'documents.*', 'time.*']

const DEFAULT_SOUL = `You are a helpful assistant. Answer briefly and truthfully, in the language of the question.
When you do not know something, look it up with your tools, and say so when that finds nothing.
`

/** A user's agents. */
export class AgentService implements Agents {
  readonly #rows: ScopedHandle<AgentRow>

  constructor(rows: ScopedHandle<AgentRow>) {
    this.#rows = rows
  }

  async get(owner: Owner, id: string): Promise<AgentProfile> {
    const row = await this.#rows.for(owner).findOne({ id })
    if (!row) throw notFound('Agent')
    return row
  }

  async default(owner: Owner): Promise<AgentProfile> {
    const rows = this.#rows.for(owner)
    const oldest = { sort: { createdAt: 1 } } as const
    const first = await rows.findOne({}, oldest)
    if (first) return first
    const made: AgentRow = { ...blank('Assistant'), soul: DEFAULT_SOUL, slot: 'default' }
    try {
      await rows.insertOne(made)
      return made
    } catch (error) {
      const other = error instanceof DuplicateKey ? await rows.findOne({}, oldest) : null
      if (!other) throw error
      return other
    }
  }

  list(owner: Owner, page: PageOptions): Promise<Page<AgentRow>> {
    return this.#rows.for(owner).page({}, page)
  }

  async create(owner: Owner, { name, ...changes }: AgentChanges & { name: string }): Promise<AgentProfile> {
    const rows = this.#rows.for(owner)
    if ((await rows.count({})) >= MAX_AGENTS) throw conflict(`You have ${MAX_AGENTS} agents, which is the most: delete one first`)
    const row = { ...blank(name), ...present(changes) }
    await rows.insertOne(row)
    return row
  }

  update(owner: Owner, id: string, changes: AgentChanges): Promise<AgentProfile> {
    const removed = Object.entries(changes).filter(([, value]) => value === null)
    return this.#change(owner, id, present(changes), Object.fromEntries(removed.map(([field]) => [field, ''])))
  }

  writeText(owner: Owner, id: string, text: AgentText, content: string): Promise<AgentProfile> {
    return this.#change(owner, id, { [text]: content })
  }

  writeTools(owner: Owner, id: string, tools: string[]): Promise<AgentProfile> {
    return this.#change(owner, id, { tools: [...new Set(tools)] })
  }

  /** Its sessions stay readable. */
  async remove(owner: Owner, id: string): Promise<void> {
    if (!(await this.#rows.for(owner).deleteOne({ id }))) throw notFound('Agent')
  }

  async #change(owner: Owner, id: string, set: Record<string, unknown>, unset: Record<string, unknown> = {}): Promise<AgentProfile> {
    const update = {
      $set: { ...set, updatedAt: new Date().toISOString() },
      ...(Object.keys(unset).length > 0 ? { $unset: unset } : {}),
    }
    const row = await this.#rows.for(owner).findOneAndUpdate({ id }, update)
    if (!row) throw notFound('Agent')
    return row
  }
}

const blank = (name: string): AgentRow => {
  const now = new Date().toISOString()
  return { id: newId('agt'), name, soul: '', boot: '', heartbeat: '', tools: DEFAULT_TOOLS, createdAt: now, updatedAt: now }
}

/** Only the fields that have a value. */
const present = <T extends object>(changes: T): { [K in keyof T]?: NonNullable<T[K]> } =>
  Object.fromEntries(Object.entries(changes).filter(([, value]) => value !== undefined && value !== null)) as {
    [K in keyof T]?: NonNullable<T[K]>
  }
