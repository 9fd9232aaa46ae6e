import type { AnyCommand } from './command.js'
import type { IdentityFile } from './identity.js'
import type { NodeLog } from './log.js'

/** How the node reaches its gateway: `auto` uses the hub, and polls where no WebSocket gets through. */
export type TransportChoice = 'auto' | 'hub' | 'polling'

/** Intervals and limits in milliseconds. The defaults are the specification's, where it has them. */
export interface NodeTiming {
  /** How long a connection to the hub may take. Default 10,000. */
  connectLimitMs: number
  /** Between heartbeats; default: what the gateway says, which is 30,000. */
  heartbeatMs: number | undefined
  /** Between polls; default: what the gateway says, which is 2,000. */
  pollMs: number | undefined
  /** Between attempts to reach the hub while polling: at first, and at most. Default 30,000 and 300,000. */
  hubRetryMs: number
  maxHubRetryMs: number
  /** The back-off between attempts to reach the gateway at all: the first wait and the longest. Default 1,000 and 60,000. */
  reconnectMs: number
  maxReconnectMs: number
  /** A command that runs for longer asks this often whether it is still wanted. Default 5,000. */
  checkInMs: number
  /** How long commands and their results have when the node stops. Default 3,000. */
  stopLimitMs: number
}

export const DEFAULT_TIMING: NodeTiming = {
  connectLimitMs: 10_000,
  heartbeatMs: undefined,
  pollMs: undefined,
  hubRetryMs: 30_000,
  maxHubRetryMs: 300_000,
  reconnectMs: 1000,
  maxReconnectMs: 60_000,
  checkInMs: 5000,
  stopLimitMs: 3000,
}

/** What the node is doing. */
export type NodeState = { kind: 'connecting' } | { kind: 'online'; transport: 'hub' | 'polling' } | { kind: 'offline'; reason: string }

/** Why a node ended. All but `stopped` need a person: a new pairing, a new token, or a newer node. */
export type NodeEnd = 'stopped' | 'revoked' | 'replaced' | 'unauthenticated' | 'protocol_unsupported'

/** How a node is started. */
export interface NodeOptions {
  /** A paired one. A token that is written there while the node runs is taken up at once. */
  identity: IdentityFile
  commands: readonly AnyCommand[]
  /** What this machine allows: names, `family.*`, family scopes or `*`. The gateway cannot widen it. */
  scopes: readonly string[]
  /** A folder of this node's own, for the memory of commands that ran. */
  stateDir: string
  /** The node software's version. */
  version: string
  log?: NodeLog
  onState?: (state: NodeState) => void
  /** Default `auto`. */
  transport?: TransportChoice
  /** Commands that run at once; more wait. Default 64. */
  maxRunning?: number
  timing?: Partial<NodeTiming>
}
