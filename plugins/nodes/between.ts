import { z } from 'zod'
import { notice, request } from '../../core/cluster/cluster.js'
import { CommandOutcome, CommandStatus } from './contract.js'
import { Heartbeat } from './protocol.js'

/** What gateways say to each other about nodes. Tokens and secrets are never among it. */

const NodeId = z.string().min(1).max(64)
const CommandId = z.string().min(1).max(100)
const Owner = z.object({ tenant: z.string().nullable(), userId: z.string() })

const Wanted = z.object({
  command: z.string().max(100),
  params: z.record(z.string(), z.unknown()).optional(),
  timeoutMs: z.number().optional(),
  agentId: z.string().optional(),
  sessionId: z.string().optional(),
})

/** A node as the gateway sees it that it is connected to or polls at. */
export const Sight = z.object({
  transport: z.enum(['socket.io', 'signalr', 'polling']),
  protocolVersion: z.string().optional(),
  seenAt: z.string(),
  heartbeat: Heartbeat.optional(),
})
export type Sight = z.infer<typeof Sight>

export const PolledCommand = z
  .object({ commandId: z.string(), command: z.string(), params: z.record(z.string(), z.unknown()), timeoutMs: z.number() })
  .meta({ id: 'PolledCommand' })
export type PolledCommand = z.infer<typeof PolledCommand>

/** Take a durable command for a node that is connected there. `status`: how it stands; without one the node is not there. */
export const takeCommand = request(
  'nodes.takeCommand',
  z.object({ owner: Owner, nodeId: NodeId, id: CommandId, wanted: Wanted }),
  z.object({ status: CommandStatus.optional() }),
)

/** Call a node that is connected there. Without an outcome it is not there. */
export const callNode = request(
  'nodes.callNode',
  z.object({ owner: Owner, nodeId: NodeId, wanted: Wanted }),
  z.object({ outcome: CommandOutcome.optional() }),
)

/** What a node that polls may be given; without commands it is not there. */
export const pollNode = request(
  'nodes.pollNode',
  z.object({ nodeId: NodeId, scopes: z.array(z.string()), resume: z.boolean() }),
  z.object({ commands: z.array(PolledCommand).optional() }),
)

/** A node has given a sign of life over HTTP. */
export const nodeHeard = notice('nodes.nodeHeard', z.object({ nodeId: NodeId, heartbeat: Heartbeat }))
/** Something waits on disk for a node. */
export const nodeAwaited = notice('nodes.nodeAwaited', z.object({ nodeId: NodeId }))
/** A node's scopes, token or approval changed on disk. */
export const nodeChanged = notice('nodes.nodeChanged', z.object({ nodeId: NodeId }))
/** A command has ended: told to the gateway of its node, and to who follows it. */
export const commandOver = notice('nodes.commandOver', z.object({ id: CommandId, nodeId: NodeId }))
/** A node was busy and said over HTTP when it can be asked again. */
export const commandPostponed = notice('nodes.commandPostponed', z.object({ id: CommandId, retryAfterMs: z.number().min(0) }))
