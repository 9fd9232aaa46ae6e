import type { z } from 'zod'
import type { Sight } from './between.js'
import type { Node } from './contract.js'
import type { CommandRecord, PendingNode } from './records.js'
import type { CommandRow, NodeRow, PairingRow } from './rows.js'

/** A node as it is shown: what is stored, and what is known of it now. */
export const toNode = (row: NodeRow, seen: Sight | undefined): Node => {
  const present = row.state === 'approved' ? seen : undefined
  const beat = present?.heartbeat
  const platform = beat?.platform ?? row.platform
  const version = beat?.version ?? row.version
  const lastSeenAt = present?.seenAt ?? row.lastSeenAt
  return {
    id: row.id,
    name: row.name,
    state: row.state,
    status: present ? 'online' : 'offline',
    capabilities: row.capabilities,
    scopes: row.scopes,
    ownerId: row.ownerId,
    createdAt: row.createdAt,
    updatedAt: row.updatedAt,
    ...(present ? { transport: present.transport } : {}),
    ...(present?.protocolVersion === undefined ? {} : { protocolVersion: present.protocolVersion }),
    ...(platform === null ? {} : { platform }),
    ...(version === null ? {} : { version }),
    ...(lastSeenAt === null ? {} : { lastSeenAt }),
    ...(beat?.uptime === undefined ? {} : { uptime: beat.uptime }),
    ...(beat?.cpuPercent === undefined ? {} : { cpuPercent: beat.cpuPercent }),
    ...(beat?.memoryMb === undefined ? {} : { memoryMb: beat.memoryMb }),
  }
}

export const toPending = (row: PairingRow): z.infer<typeof PendingNode> => ({
  id: row.id,
  name: row.name,
  pairingCode: row.pairingCode,
  capabilities: row.capabilities,
  address: row.address,
  createdAt: row.createdAt,
  expiresAt: row.secretUntil,
  ...(row.platform === null ? {} : { platform: row.platform }),
  ...(row.version === null ? {} : { version: row.version }),
})

/** A command as it is listed: without its result, which may be large. */
export const toRecord = (row: CommandRow): z.infer<typeof CommandRecord> => ({
  commandId: row.id,
  nodeId: row.nodeId,
  command: row.command,
  timeoutMs: row.timeoutMs,
  status: row.status,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
  truncated: row.truncated,
  ...(row.params === null ? {} : { params: JSON.parse(row.params) as Record<string, unknown> }),
  ...(row.needsApproval ? { approvalId: `apr_${row.id}` } : {}),
  ...(row.agentId === null ? {} : { agentId: row.agentId }),
  ...(row.sessionId === null ? {} : { sessionId: row.sessionId }),
  ...(row.dispatchedAt === null ? {} : { dispatchedAt: row.dispatchedAt }),
  ...(row.finishedAt === null ? {} : { finishedAt: row.finishedAt }),
  ...(row.progress === null
    ? {}
    : {
        progress: {
          ...(row.progress.percent === null ? {} : { percent: row.progress.percent }),
          ...(row.progress.message === null ? {} : { message: row.progress.message }),
        },
      }),
  ...(row.ok === null ? {} : { ok: row.ok }),
  ...(row.error === null ? {} : { error: row.error }),
  ...(row.durationMs === null ? {} : { durationMs: row.durationMs }),
})
