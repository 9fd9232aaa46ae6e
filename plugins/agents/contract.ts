import { z } from 'zod'
import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export const Agent = z
  .object({
    id: z.string(),
    name: z.string(),
    description: z.string().optional(),
    /** `provider/model` of a configured provider; absent: the gateway's default. */
    model: z.string().optional(),
    instructions: z.string().optional(),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Agent' })
export type Agent = z.infer<typeof Agent>

/** What a task needs to know of its agent. */
export interface AgentProfile extends Agent {
  soul: string
  boot: string
  heartbeat: string
  /** Allowed tools: names, `family.*`, or `*` for every tool. Names that no one has registered yet may be among them. */
  tools: string[]
}

export interface Agents {
  /** `not_found` when the owner has no such agent. */
  get(owner: Owner, id: string): Promise<AgentProfile>
  /** The owner's first agent, made on first use. */
  default(owner: Owner): Promise<AgentProfile>
}

export const agents = service<Agents>('agents')
