import { z } from 'zod'
import { event, service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export { isCommandName, isFamilyScope, isInScope } from './scopes.js'

export const CommandStatus = z.enum([
  'queued',
  'awaiting_approval',
  'dispatched',
  'running',
  'succeeded',
  'failed',
  'timed_out',
  'cancelled',
])
export type CommandStatus = z.infer<typeof CommandStatus>

export const CommandError = z
  .object({
    code: z.string(),
    message: z.string(),
    details: z.record(z.string(), z.unknown()).optional(),
    retryAfterMs: z.number().optional(),
  })
  .meta({ id: 'CommandError' })
export type CommandError = z.infer<typeof CommandError>

/** How a command stands, with its result once it has one. */
export const CommandOutcome = z
  .object({
    commandId: z.string(),
    status: CommandStatus,
    ok: z.boolean().optional(),
    result: z.record(z.string(), z.unknown()).optional(),
    error: CommandError.optional(),
    durationMs: z.number().optional().describe('As the node measured it'),
    truncated: z.array(z.string()).optional().describe('Paths of fields that were cut at 1 MiB'),
  })
  .meta({ id: 'CommandOutcome' })
export type CommandOutcome = z.infer<typeof CommandOutcome>

export const Node = z
  .object({
    id: z.string(),
    name: z.string(),
    state: z.enum(['approved', 'revoked']),
    status: z.enum(['online', 'offline']),
    transport: z.enum(['socket.io', 'signalr', 'polling']).optional().describe('While online'),
    platform: z.string().optional(),
    version: z.string().optional(),
    capabilities: z.array(z.string()),
    scopes: z.array(z.string()).describe('What the node may be asked to do'),
    ownerId: z.string(),
    uptime: z.number().optional(),
    cpuPercent: z.number().optional(),
    memoryMb: z.number().optional(),
    protocolVersion: z.string().optional(),
    lastSeenAt: z.string().optional(),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Node' })
export type Node = z.infer<typeof Node>

export interface NewCommand {
  command: string
  params?: Record<string, unknown> | undefined
  /** Default 30,000, at most a day. */
  timeoutMs?: number | undefined
  /** Who asks, when it is not the owner in person. */
  agentId?: string | undefined
  sessionId?: string | undefined
  /** The same key of the same owner twice is one command: whoever asks again after a crash finds the first one. */
  key?: string | undefined
}

/** Nodes, as other areas use them: always on behalf of an owner, through the same scopes and approvals as over REST. */
export interface Nodes {
  list(owner: Owner): Promise<Node[]>
  /**
   * Takes a command: it is on disk, and may wait for its node or for an approval. Rejects with `not_found`, `conflict` (the
   * node is revoked), `not_authorized` (the scope is missing) or `rate_limited` (too many wait).
   */
  enqueue(owner: Owner, nodeId: string, command: NewCommand): Promise<CommandOutcome>
  /** The command once it has ended, or as it stands after `timeoutMs` or when `signal` aborts. `not_found` for another's. */
  wait(owner: Owner, commandId: string, timeoutMs: number, signal: AbortSignal): Promise<CommandOutcome>
  /** Cancels the command, with its approval, unless it has ended; how it stands then. `not_found` for another's. */
  cancel(owner: Owner, commandId: string, message: string): Promise<CommandOutcome>
  /**
   * Sends a command and waits until it has ended or `signal` aborts; aborting leaves it running. Rejects with
   * `not_found`, `not_authorized` (the scope is missing) or `rate_limited` (too many wait).
   */
  run(owner: Owner, nodeId: string, command: NewCommand, signal: AbortSignal): Promise<CommandOutcome>
  /**
   * Asks a connected node at once and keeps nothing: for what is not worth asking again when the connection breaks.
   * Rejects as `run` does, with `service_unavailable` when the node is not connected, and with `not_authorized` for a
   * command that has to be approved.
   */
  call(owner: Owner, nodeId: string, command: NewCommand): Promise<CommandOutcome>
}

export const nodes = service<Nodes>('nodes')

/** A node came online or went offline, as this gateway sees it. */
export const nodeStatusChanged = event('nodes.statusChanged', z.object({ nodeId: z.string(), status: z.enum(['online', 'offline']) }))
