import type { z } from 'zod'
import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export interface ToolContext {
  owner: Owner
  agentId: string
  sessionId: string
  taskId: string
  signal: AbortSignal
}

/** Something that an agent can do. */
export interface Tool<P extends z.ZodType = z.ZodType> {
  /** `family.verb`, for example `memory.search`. Unique. */
  name: string
  description: string
  parameters: P
  /** Its result goes back to the model as JSON. A thrown error goes back as its message. */
  execute(parameters: z.output<P>, context: ToolContext): Promise<unknown>
}

/** The open set of tools. */
export interface Tools {
  /** Throws when the name is taken. Returns the undo. */
  register<P extends z.ZodType>(tool: Tool<P>): () => void
  list(): Tool[]
  get(name: string): Tool | undefined
}

export const tools = service<Tools>('tools')
