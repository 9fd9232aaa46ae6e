import { z } from 'zod'
import { CommandError, CommandStatus } from './contract.js'
import { isNodeId } from './tokens.js'

export const NodeId = z
  .string()
  .refine(isNodeId, 'a node id has 1 to 64 letters, digits, _ and -, starts with a letter or digit, and is no reserved word')

export const PendingNode = z
  .object({
    id: z.string(),
    name: z.string(),
    pairingCode: z.string().describe('To be compared with what the machine shows'),
    platform: z.string().optional(),
    version: z.string().optional(),
    capabilities: z.array(z.string()),
    address: z.string().describe('Where the request came from'),
    createdAt: z.string(),
    expiresAt: z.string(),
  })
  .meta({ id: 'PendingNode' })

const Progress = z.object({ percent: z.number().optional(), message: z.string().optional() })

export const CommandRecord = z
  .object({
    commandId: z.string(),
    nodeId: z.string(),
    command: z.string(),
    params: z.record(z.string(), z.unknown()).optional().describe('Left out where they are large'),
    timeoutMs: z.number(),
    status: CommandStatus,
    approvalId: z.string().optional(),
    agentId: z.string().optional(),
    sessionId: z.string().optional(),
    createdAt: z.string(),
    updatedAt: z.string(),
    dispatchedAt: z.string().optional(),
    finishedAt: z.string().optional(),
    progress: Progress.optional(),
    ok: z.boolean().optional(),
    error: CommandError.optional(),
    durationMs: z.number().optional(),
    truncated: z.array(z.string()),
  })
  .meta({ id: 'Command' })

export const Crash = z
  .object({
    id: z.string(),
    message: z.string(),
    stack: z.string().optional(),
    version: z.string().optional(),
    platform: z.string().optional(),
    occurredAt: z.string().describe("By the node's clock"),
    createdAt: z.string(),
  })
  .meta({ id: 'NodeCrash' })
export type Crash = z.infer<typeof Crash>
