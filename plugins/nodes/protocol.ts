import { z } from 'zod'
import { MAX_NAME_LENGTH, NAME } from './scopes.js'

/** Versions of the node protocol that this gateway speaks, newest first: the last two. */
export const PROTOCOL_VERSIONS: readonly string[] = ['2026-04-01']

/** What the gateway invokes on nodes. Each takes one argument. */
export type GatewayMethod = 'ExecuteCommand' | 'RefreshScopes' | 'RevokeAccess'

/** Parts that one result may come in. */
export const MAX_PARTS = 256
export const MAX_SCOPES = 200

/** Names are checked where a person sets them; a node only echoes them. */
export const ScopeEcho = z.array(z.string().max(MAX_NAME_LENGTH)).max(MAX_SCOPES)

export const Scope = z.string().max(MAX_NAME_LENGTH).regex(NAME, 'a scope is written family.name, for example screen.capture')

export const CommandName = z.string().max(MAX_NAME_LENGTH).regex(NAME, 'a command is written family.name, for example screen.capture')

/** Numbers that a machine measures about itself; whatever else it sends in their place is left out. */
const Measure = z.number().nonnegative().optional().catch(undefined)
const Label = z.string().max(200).optional().catch(undefined)

export const Heartbeat = z
  .object({
    nodeId: z.string().max(64).optional(),
    status: Label,
    uptime: Measure,
    platform: Label,
    version: Label,
    cpuPercent: Measure,
    memoryMb: Measure,
  })
  .meta({ id: 'Heartbeat' })
export type Heartbeat = z.infer<typeof Heartbeat>

/** The error codes that a command can end with. */
export const COMMAND_ERRORS = [
  'not_authorized',
  'approval_rejected',
  'timeout',
  'platform_unsupported',
  'invalid_params',
  'busy',
  'cancelled',
  'internal_error',
] as const

const SentError = z.object({
  code: z.string().max(100),
  message: z.string().max(10_000).default(''),
  details: z.record(z.string(), z.unknown()).optional(),
  retryAfterMs: z.number().nonnegative().optional(),
})
export type SentError = z.infer<typeof SentError>

/** A result as a node posts it, or a part of one. */
export const PostedResult = z
  .object({
    ok: z.boolean(),
    result: z.looseObject({}).nullable().optional(),
    durationMs: z.number().nonnegative().optional(),
    error: SentError.nullable().optional(),
    partIndex: z
      .int()
      .min(0)
      .max(MAX_PARTS - 1)
      .nullable()
      .optional()
      .describe('From 0, in any order'),
    isLast: z.boolean().nullable().optional(),
    protocolVersion: z.string().max(100).nullable().optional(),
  })
  .meta({ id: 'PostedResult' })
export type PostedResult = z.infer<typeof PostedResult>

export const CommandResult = PostedResult.extend({ commandId: z.string().min(1).max(100) })
export type CommandResult = z.infer<typeof CommandResult>

/** A command as a node gets it over the hub. */
export interface ExecuteCommand {
  commandId: string
  command: string
  params: Record<string, unknown>
  timeoutMs: number
  originatedBy: { userId: string; agentId: string; sessionId: string }
  protocolVersion: string
}

/**
 * The newest version that both sides speak. A node offers its own, comma-separated; one that offers none speaks the
 * oldest. `undefined`: there is none in common.
 */
export const negotiate = (offered: string | undefined, supported: readonly string[]): string | undefined => {
  if (offered === undefined || offered.trim() === '') return supported.at(-1)
  const versions = offered.split(',').map(version => version.trim())
  return supported.find(version => versions.includes(version))
}
