import { collection } from '../../core/store/collection.js'
import type { CommandError, CommandStatus } from './contract.js'

/** What a node says of itself when it asks to be paired. */
export interface NodeProfile {
  name: string
  platform: string | null
  version: string | null
  capabilities: string[]
}

/**
 * The one pairing record of a node: its id is the node's. `key` tells this request from earlier and later ones. That the
 * token was handed out is not kept here but by the node's token itself, so that it is decided in one place.
 */
export interface PairingRow extends NodeProfile {
  id: string
  key: string
  state: 'pending' | 'approved' | 'rejected'
  secretHash: string
  pairingCode: string
  address: string
  createdAt: string
  /** When the secret dies. */
  secretUntil: string
  /** Who approved, and what: enough to make the node from. */
  approval: { tenant: string | null; ownerId: string; scopes: string[]; at: string } | null
  /** When the record is forgotten; an approved one stays until the node is revoked. */
  expiresAt?: string
}

/** A paired node. Its id is the name that it gave itself. */
export interface NodeRow extends NodeProfile {
  id: string
  ownerId: string
  state: 'approved' | 'revoked'
  scopes: string[]
  /** The node has not yet acknowledged a change of its scopes. */
  scopesChanged: boolean
  /** `key` of the pairing that it came from. */
  pairing: string
  /** SHA-256 of the token's secret; `null`: not handed out yet, or revoked. */
  tokenHash: string | null
  /** The token before the last rotation: good until the new one is used, or until then. */
  oldTokenHash: string | null
  oldTokenUntil: string | null
  lastSeenAt: string | null
  createdAt: string
  updatedAt: string
}

/** Free-form data is kept as JSON text: its keys are anyone's. */
export interface CommandRow {
  /** A UUID. */
  id: string
  nodeId: string
  ownerId: string
  command: string
  /** `null`: large, and kept apart. */
  params: string | null
  paramsId: string | null
  timeoutMs: number
  agentId: string | null
  sessionId: string | null
  status: CommandStatus
  /** It has or had to be approved; the approval's id is made of the command's. */
  needsApproval: boolean
  createdAt: string
  updatedAt: string
  dispatchedAt: string | null
  /** While open: when it has to be over. In the queue its time to live, once dispatched its timeout. */
  dueAt?: string
  progress: { percent: number | null; message: string | null } | null
  finishedAt: string | null
  /** Who ended it: a result of the node, or the gateway. */
  endedBy: 'node' | 'gateway' | null
  ok: boolean | null
  result: string | null
  /** Of a large result: where it is kept. */
  resultId: string | null
  error: CommandError | null
  durationMs: number | null
  truncated: string[]
  expiresAt?: string
}

/** Parameters or a result too large to stand in their command. */
export interface LargeRow {
  id: string
  json: string
  expiresAt: string
}

/** One part of a result that has not arrived whole. Its id is made of the command's and the part's. */
export interface PartRow {
  id: string
  commandId: string
  partIndex: number
  isLast: boolean
  result: string
  durationMs: number | null
  truncated: string[]
  bytes: number
  expiresAt: string
}

export interface CrashRow {
  id: string
  nodeId: string
  message: string
  stack: string | null
  version: string | null
  platform: string | null
  occurredAt: string
  createdAt: string
  expiresAt: string
}

export const collections = {
  nodes: collection.tenant<NodeRow>({ indexes: [{ fields: { ownerId: 1, createdAt: -1 } }] }),
  pairings: collection.global<PairingRow>({
    indexes: [{ fields: { state: 1, createdAt: -1 } }, { fields: { state: 1, address: 1 } }],
    expires: true,
  }),
  commands: collection.tenant<CommandRow>({
    indexes: [
      { fields: { nodeId: 1, createdAt: -1 } },
      // Only open commands have it: these stay small.
      { fields: { nodeId: 1, dueAt: 1 }, sparse: true, acrossOwners: true },
      { fields: { dueAt: 1 }, sparse: true, acrossOwners: true },
    ],
    expires: true,
  }),
  large: collection.global<LargeRow>({ expires: true }),
  parts: collection.global<PartRow>({ indexes: [{ fields: { commandId: 1, partIndex: 1 } }], expires: true }),
  crashes: collection.tenant<CrashRow>({ indexes: [{ fields: { nodeId: 1, createdAt: -1 } }], expires: true }),
}
