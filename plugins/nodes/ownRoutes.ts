import { z } from 'zod'
import { notFound } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { route, type Route } from '../../core/http/route.js'
import { PolledCommand } from './between.js'
import { CommandStatus } from './contract.js'
import type { Crashes } from './crashes.js'
import type { Directory, KnownNode } from './directory.js'
import type { Dispatcher } from './dispatcher.js'
import type { Intake } from './intake.js'
import { Heartbeat, PostedResult } from './protocol.js'
import type { Reach } from './reach.js'
import { Crash } from './records.js'
import type { SessionIdentity } from './session.js'
import type { NodeSettings, Release } from './settings.js'

/** The interval of heartbeats in the specification. */
const HEARTBEAT_INTERVAL_MS = 30_000

const own = { access: { credential: 'node' }, limit: 'node' } as const
const ofCommand = { ...own, params: z.object({ commandId: z.string().min(1).max(100) }) } as const

const Self = z
  .object({
    nodeId: z.string(),
    name: z.string(),
    scopes: z.array(z.string()),
    gatewayUrl: z.string(),
    protocolVersions: z.array(z.string()).describe('That the gateway speaks, newest first'),
    heartbeatIntervalMs: z.number(),
    pollIntervalMs: z.number(),
  })
  .meta({ id: 'NodeSelf' })

const Taken = z.object({ commandId: z.string(), status: CommandStatus }).meta({ id: 'ResultTaken' })

const UpdateManifest = z
  .object({
    protocolVersions: z.array(z.string()),
    platform: z.string().nullable(),
    version: z.string().nullable().describe('The newest release for the platform; null: none is known here'),
    url: z.string().optional(),
    sha256: z.string().optional(),
  })
  .meta({ id: 'UpdateManifest' })

const NewCrash = z
  .object({
    message: z.string().min(1).max(10_000),
    stack: z.string().max(100_000).optional(),
    version: z.string().max(200).optional(),
    platform: z.string().max(200).optional(),
    occurredAt: z.iso.datetime().optional(),
  })
  .meta({ id: 'NewCrash' })

interface Parts {
  directory: Directory
  reach: Reach
  dispatcher: Dispatcher
  intake: Intake
  crashes: Crashes
  settings: NodeSettings
  versions: readonly string[]
  publicUrl: () => string
}

/** What nodes call with their token: the way around a network that lets no WebSocket through. */
export const ownRoutes = (parts: Parts): Route[] => [...selfRoutes(parts), ...workRoutes(parts)]

/** A node's caller carries its id and tenant; there is nothing to look up for its results. */
const identityOf = ({ credential, tenant, userId }: Caller): SessionIdentity => ({ id: credential.id, tenant, ownerId: userId })

const selfRoutes = ({ directory, reach, crashes, settings, versions, publicUrl }: Parts): Route[] => {
  const self = async (caller: Caller): Promise<KnownNode> => {
    const node = await directory.find(caller.credential.id)
    if (!node) throw notFound('Node')
    return node
  }
  return [
    route({
      ...own,
      method: 'GET',
      path: '/nodes/me',
      summary: 'What the gateway knows of the node that asks',
      returns: Self,
      handle: async ({ caller }) => {
        const { id, name, scopes } = await self(caller)
        const pollIntervalMs = settings.pollInterval.get() * 1000
        const common = { protocolVersions: [...versions], heartbeatIntervalMs: HEARTBEAT_INTERVAL_MS, pollIntervalMs }
        return { nodeId: id, name, scopes, gatewayUrl: publicUrl(), ...common }
      },
    }),
    route({
      ...own,
      method: 'POST',
      path: '/nodes/me/heartbeat',
      summary: 'Say that the node is there, every 30 s',
      description: 'Answers with the scopes in force.',
      body: Heartbeat,
      returns: z.object({ scopes: z.array(z.string()) }).meta({ id: 'HeartbeatAnswer' }),
      handle: async ({ caller, body }) => {
        const { id, scopes } = await self(caller)
        await reach.heartbeat(id, body)
        return { scopes }
      },
    }),
    route({
      ...own,
      method: 'GET',
      path: '/nodes/update-manifest',
      summary: 'The newest release of the node software',
      query: z.object({ platform: z.string().max(200).optional() }),
      returns: UpdateManifest,
      handle: async ({ caller, query }) => {
        const platform = query.platform ?? (await self(caller)).platform
        const { Version: version = null, Url: url, Sha256: sha256 } = releaseFor(settings.releases.get(), platform) ?? {}
        const place = { ...(url === undefined ? {} : { url }), ...(sha256 === undefined ? {} : { sha256 }) }
        return { protocolVersions: [...versions], platform, version, ...place }
      },
    }),
    route({
      ...own,
      method: 'POST',
      path: '/nodes/me/crashes',
      summary: 'Report a crash of the node',
      description: 'The newest 100 of a node are kept, for 90 days.',
      body: NewCrash,
      returns: Crash,
      status: 201,
      handle: ({ caller, body }) => crashes.add(identityOf(caller), body),
    }),
  ]
}

const workRoutes = ({ directory, reach, dispatcher, intake, settings }: Parts): Route[] => [
  route({
    ...own,
    method: 'GET',
    path: '/nodes/me/commands',
    summary: 'Take the commands that wait for the node, every 2 s',
    description:
      'Each is given once; `resume=true`, for a node that was started anew or lost an answer, gives those that have not ended once more. Empty while the node is connected to the hub, which has them then.',
    query: z.object({ resume: z.stringbool().default(false) }),
    returns: z.object({ commands: z.array(PolledCommand) }).meta({ id: 'PolledCommands' }),
    handle: async ({ caller, query }) => {
      const scopes = (await directory.find(caller.credential.id))?.scopes ?? []
      const { id } = caller.credential
      const { commands, isSure } = await reach.poll(id, scopes, query.resume)
      return { commands: commands ?? (await dispatcher.poll(id, scopes, { resume: query.resume, onlyQueued: !isSure })) }
    },
  }),
  route({
    ...ofCommand,
    method: 'POST',
    path: '/nodes/me/commands/:commandId/progress',
    summary: 'Say how far a command is',
    body: z
      .object({ percent: z.number().min(0).max(100).optional(), message: z.string().max(1000).optional() })
      .optional()
      .meta({ id: 'CommandProgress' }),
    returns: Taken,
    handle: ({ caller, params: { commandId }, body }) =>
      intake.progress(identityOf(caller), commandId, { percent: body?.percent ?? null, message: body?.message ?? null }),
  }),
  route({
    ...ofCommand,
    method: 'POST',
    path: '/nodes/me/commands/:commandId/complete',
    summary: 'End a command without a payload, or close the parts of its result',
    body: PostedResult.pick({ ok: true, error: true, durationMs: true }).meta({ id: 'CommandCompletion' }),
    returns: Taken,
    handle: ({ caller, params: { commandId }, body }) => intake.complete(identityOf(caller), commandId, body),
  }),
  route({
    ...ofCommand,
    method: 'POST',
    path: '/nodes/me/commands/:commandId/result',
    summary: 'Post the result of a command, or a part of it',
    description:
      'The first result counts; the same again changes nothing. Parts come in any order: texts of the same name are joined. 409: the command has ended otherwise.',
    body: PostedResult,
    jsonLimit: settings.maxMessageBytes.get(),
    returns: Taken,
    handle: ({ caller, params: { commandId }, body }) => intake.result(identityOf(caller), { ...body, commandId }),
  }),
]

const releaseFor = (releases: Readonly<Record<string, Release>>, platform: string | null): Release | undefined =>
  (platform !== null && Object.hasOwn(releases, platform) ? releases[platform] : undefined) ?? releases.any
