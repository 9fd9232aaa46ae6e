export const NEWEST_VERSION = '2026-04-01'
/** Versions of the node protocol that this SDK speaks, newest first. */
export const NODE_PROTOCOL_VERSIONS: readonly string[] = [NEWEST_VERSION]

/** Where the hub stands, below the gateway's address. */
export const HUB_PATH = '/hubs/node'

/** UTF-8 bytes of one text field of a result message; the gateway cuts what is longer. */
export const MAX_FIELD_BYTES = 1_048_576
/** Bytes of a whole result, all its parts together. */
export const MAX_RESULT_BYTES = 12 * 1024 * 1024
/** Messages that one result may come in. */
export const MAX_PARTS = 256

/** Without a `timeoutMs` a command has this long. */
export const DEFAULT_TIMEOUT_MS = 30_000
/** The gateway's own limit, which also is the longest that a timer of Node may run for without wrapping round. */
const MAX_TIMEOUT_MS = 86_400_000

/** What a node says about itself every 30 s. */
export interface Heartbeat {
  nodeId: string
  status: 'online'
  /** Seconds since the node's process started. */
  uptime: number
  platform: string
  version: string
  /** Of one core, by the node's process, since the heartbeat before. */
  cpuPercent: number
  /** Resident memory of the node's process. */
  memoryMb: number
}

/** On whose behalf a command runs; a text that the gateway did not send is empty. */
export interface CommandOrigin {
  userId: string
  agentId: string
  sessionId: string
}

/** A command as the gateway sends it. */
export interface ExecuteCommand {
  commandId: string
  command: string
  params: Record<string, unknown>
  timeoutMs: number
  originatedBy: CommandOrigin
  /** The version that this connection speaks. */
  protocolVersion: string
}

/** The codes that a command can fail with. */
export type CommandErrorCode =
  'not_authorized' | 'approval_rejected' | 'timeout' | 'platform_unsupported' | 'invalid_params' | 'busy' | 'cancelled' | 'internal_error'

/** Why a command failed. */
export interface CommandFailure {
  code: CommandErrorCode
  message: string
  details?: Record<string, unknown>
  /** With `busy`: when to ask again. */
  retryAfterMs?: number
}

/** What a command came to. */
export interface CommandResult {
  commandId: string
  ok: boolean
  result?: Record<string, unknown>
  error?: CommandFailure
  durationMs: number
  protocolVersion?: string
}

/** A result, or a part of one, as it travels. */
export interface ResultMessage extends CommandResult {
  partIndex?: number
  isLast?: boolean
  protocolVersion: string
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === 'object' && value !== null && !Array.isArray(value)
const text = (value: unknown): string => (typeof value === 'string' ? value : '')

/** Reads a command of the gateway; unknown fields are ignored. `undefined`: it has no id or name, so it cannot even be refused. */
export const readCommand = (value: unknown): ExecuteCommand | undefined => {
  if (!isObject(value)) return undefined
  const { commandId, command, params, timeoutMs, originatedBy, protocolVersion } = value
  if (typeof commandId !== 'string' || commandId === '' || typeof command !== 'string' || command === '') return undefined
  const origin = isObject(originatedBy) ? originatedBy : {}
  return {
    commandId,
    command,
    params: isObject(params) ? params : {},
    timeoutMs: typeof timeoutMs === 'number' && timeoutMs > 0 ? Math.min(timeoutMs, MAX_TIMEOUT_MS) : DEFAULT_TIMEOUT_MS,
    originatedBy: { userId: text(origin.userId), agentId: text(origin.agentId), sessionId: text(origin.sessionId) },
    protocolVersion: text(protocolVersion) || NEWEST_VERSION,
  }
}

/** Reads a list of scopes; whatever is no text in it is left out. */
export const readScopes = (value: unknown): string[] =>
  Array.isArray(value) ? value.filter((scope): scope is string => typeof scope === 'string') : []
