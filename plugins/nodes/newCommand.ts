import { createHash } from 'node:crypto'
import type { Owner } from '../../core/store/collection.js'
import type { NewCommand } from './contract.js'
import type { CommandRow } from './rows.js'

export const DEFAULT_TIMEOUT_MS = 30_000

interface Fresh {
  id: string
  nodeId: string
  status: 'queued' | 'dispatched' | 'awaiting_approval'
  /** How long it may wait, unless it is dispatched at once. */
  queueTtlMs: number
  /** By the clock of all gateways. */
  now: number
}

/** A command as it is first put on disk. */
export const toRow = (owner: Owner, wanted: NewCommand, { id, nodeId, status, queueTtlMs, now }: Fresh): CommandRow => {
  const { command, params = {}, timeoutMs = DEFAULT_TIMEOUT_MS, agentId, sessionId } = wanted
  const createdAt = new Date(now).toISOString()
  const isDispatched = status === 'dispatched'
  return {
    id,
    nodeId,
    ownerId: owner.userId,
    command,
    params: JSON.stringify(params),
    paramsId: null,
    timeoutMs,
    agentId: agentId ?? null,
    sessionId: sessionId ?? null,
    status,
    needsApproval: status === 'awaiting_approval',
    createdAt,
    updatedAt: createdAt,
    dispatchedAt: isDispatched ? createdAt : null,
    dueAt: new Date(now + (isDispatched ? timeoutMs : queueTtlMs)).toISOString(),
    progress: null,
    finishedAt: null,
    endedBy: null,
    ok: null,
    result: null,
    resultId: null,
    error: null,
    durationMs: null,
    truncated: [],
  }
}

/** A UUID (version 8, RFC 9562) that follows from the key. */
export const idOf = ({ tenant, userId }: Owner, key: string): string => {
  const hex = createHash('sha256')
    .update(JSON.stringify([tenant, userId, key]))
    .digest('hex')
  const variant = ((parseInt(hex.charAt(16), 16) & 0x3) | 0x8).toString(16)
  return [hex.slice(0, 8), hex.slice(8, 12), `8${hex.slice(13, 16)}`, `${variant}${hex.slice(17, 20)}`, hex.slice(20, 32)].join('-')
}
