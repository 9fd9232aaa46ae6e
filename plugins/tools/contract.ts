import type { z } from 'zod'
import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export interface ToolContext {
  owner: Owner
  agentId: string
  sessionId: string
  /** A task that is run again after a crash keeps its id: a tool that writes makes one change of it. */
  taskId: string
  signal: AbortSignal
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

/** The open set of tools. */
export interface Tools {
  /** Throws when the name is taken or malformed. Returns the undo. */
  register<P extends z.ZodType>(tool: Tool<P>): () => void
  /** By name. */
  list(): Tool[]
  get(name: string): Tool | undefined
}

export const tools = service<Tools>('tools')

/** Names, families and everything, as an agent's allow-list writes them: `memory.search`, `memory.*`, `*`. */
export const toolPattern = /^(\*|[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*(\.\*)?)$/

/** Whether an allow-list lets an agent use the tool `name`. */
export const isToolAllowed = (allowed: readonly string[], name: string): boolean =>
  allowed.some(pattern => pattern === '*' || pattern === name || (pattern.endsWith('.*') && name.startsWith(pattern.slice(0, -1))))
