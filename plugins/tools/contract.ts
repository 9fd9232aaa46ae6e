import type { z } from 'zod'
import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export interface ToolContext {
  owner: Owner
  agentId: string
  sessionId: string
  /** A task that is run again after a crash keeps its id: a tool that writes makes one change of it. */
  taskId: string
  /** What the sender may do at most, where that is less than what the owner may: a token narrowed to a list. */
  permissions?: readonly string[]
  /**
   * Aborted when the task ends. Its reason is a `TaskInterrupted` when the task goes on later, under the same id: what
   * can be found again then is better left running.
   */
  signal: AbortSignal
  /** Waits for a person, who may take long: the task takes no place from others meanwhile. */
  resting: <T>(work: () => Promise<T>) => Promise<T>
}

/** The reason of a task's signal when the gateway stops, and the task is run again at its next start. */
export class TaskInterrupted extends Error {
  constructor() {
    super('The gateway stops')
    this.name = 'TaskInterrupted'
  }
}

/** Something that an agent can do. */
export interface Tool<P extends z.ZodType = z.ZodType> {
  /** `family.verb`, for example `memory.search`: letters, digits, `_` and `-`, parts joined by dots. Unique. */
  name: string
  description: string
  /** Pure JSON: shown as JSON Schema, and checked before `execute`. */
  parameters: P
  /** Its result goes back to the model as JSON. A thrown error goes back as its message. */
  execute(parameters: z.output<P>, context: ToolContext): Promise<unknown>
}

/**
 * Tools that come and go with what an owner has. Asked once for each run of a task, so that they may keep what belongs
 * to the run.
 */
export interface ToolSource {
  /** Only those that `isAllowed` lets pass, in the order of their worth, with names as in `Tool` of at most 200 characters. */
  toolsFor(owner: Owner, isAllowed: (name: string) => boolean, permissions?: readonly string[]): Promise<Tool[]>
}

/** The open set of tools. */
export interface Tools {
  /** Throws when the name is taken or malformed. Returns the undo. */
  register<P extends z.ZodType>(tool: Tool<P>): () => void
  /** By name. */
  list(): Tool[]
  get(name: string): Tool | undefined
  /** Adds tools that depend on the owner. Returns the undo. */
  extend(source: ToolSource): () => void
  /** What a run of a task may use: everything that the allow-list lets pass, registered or of a source. */
  usable(owner: Owner, allowed: readonly string[], permissions?: readonly string[]): Promise<Tool[]>
}

export const tools = service<Tools>('tools')

/** Names, families and everything, as an agent's allow-list writes them: `memory.search`, `memory.*`, `*`. */
export const toolPattern = /^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/

/** Whether an allow-list lets an agent use the tool `name`. */
export const isToolAllowed = (allowed: readonly string[], name: string): boolean =>
  allowed.some(pattern => pattern === '*' || pattern === name || (pattern.endsWith('.*') && name.startsWith(pattern.slice(0, -1))))
