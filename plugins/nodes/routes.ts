import { z } from 'zod'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { preferredWait } from '../../core/http/prefer.js'
import { RecordReply, route, type Route } from '../../core/http/route.js'
import { AuditRecord, type Audit } from '../audit/contract.js'
import type { Commands } from './commands.js'
import { CommandOutcome, Node } from './contract.js'
import type { Crashes } from './crashes.js'
import type { Directory } from './directory.js'
import { isOpen, type Ledger } from './ledger.js'
import { DEFAULT_TIMEOUT_MS } from './newCommand.js'
import { CommandName, MAX_SCOPES, Scope } from './protocol.js'
import type { Reach } from './reach.js'
import { CommandRecord, Crash } from './records.js'
import type { NodeService } from './service.js'
import { toNode, toRecord } from './view.js'

const MAX_TIMEOUT_MS = 86_400_000
const MAX_WAIT_MS = 60_000
const DEFAULT_WAIT_MS = 30_000

const byId = z.object({ id: z.string().min(1).max(64) })
const byCommand = z.object({ commandId: z.string().min(1).max(100) })
const list = { access: 'user', limit: 'read', params: byId, query: z.object(pageQuery) } as const
const managed = { access: { permission: 'ManageNodes' }, limit: 'write', params: byId } as const

const NewCommand = z
  .object({
    command: CommandName.describe('For example screen.capture'),
    params: z.record(z.string(), z.unknown()).optional(),
    timeoutMs: z.int().min(1).max(MAX_TIMEOUT_MS).default(DEFAULT_TIMEOUT_MS).describe('From the first dispatch to the node'),
  })
  .meta({ id: 'NewCommand' })

const Rotated = z
  .object({
    token: z.string().describe('Shown this once'),
    oldTokenUntil: z.string().nullable().describe('Until when the token before is good, unless the new one is used earlier'),
  })
  .meta({ id: 'RotatedToken' })

interface Parts {
  service: NodeService
  directory: Directory
  reach: Reach
  commands: Commands
  ledger: Ledger
  crashes: Crashes
  audit: Audit
}

/** What people do with nodes. */
export const nodeRoutes = (parts: Parts): Route[] => [...readRoutes(parts), ...managementRoutes(parts), ...commandRoutes(parts)]

const readRoutes = ({ directory, reach, crashes, audit }: Parts): Route[] => [
  route({
    method: 'GET',
    path: '/nodes',
    access: 'user',
    limit: 'read',
    summary: 'List your nodes; with ManageNodes, every node of the tenant',
    query: z.object(pageQuery),
    returns: pageOf(Node),
    handle: async ({ caller, query }) => {
      const page = await directory.page(caller, query)
      const seen = await reach.sights(page.items.map(({ id }) => id))
      return { ...page, items: page.items.map(row => toNode(row, seen.get(row.id))) }
    },
  }),
  route({
    method: 'GET',
    path: '/nodes/:id',
    access: 'user',
    limit: 'read',
    summary: 'One node',
    params: byId,
    returns: Node,
    handle: async ({ caller, params: { id } }) => toNode(await directory.visible(caller, id), (await reach.sights([id])).get(id)),
  }),
  route({
    ...list,
    method: 'GET',
    path: '/nodes/:id/audit',
    summary: 'What was done to a node, and what it was refused, newest first',
    returns: pageOf(AuditRecord),
    handle: async ({ caller, params: { id }, query }) => {
      await directory.visible(caller, id)
      return audit.of({ tenant: caller.tenant, area: 'nodes', target: id }, query)
    },
  }),
  route({
    ...list,
    method: 'GET',
    path: '/nodes/:id/crashes',
    summary: 'The crashes that a node has reported, newest first',
    returns: pageOf(Crash),
    handle: async ({ caller, params: { id }, query }) => {
      await directory.visible(caller, id)
      return crashes.page(caller, id, query)
    },
  }),
]

const managementRoutes = ({ service }: Parts): Route[] => [
  route({
    ...managed,
    method: 'POST',
    path: '/nodes/:id/revoke',
    limit: 'decision',
    summary: 'Take the access of a node away, at once and for good',
    description: 'What it still had to do fails. To come back it has to be paired again.',
    returns: Node,
    handle: ({ caller, params: { id } }) => service.revoke(caller, id),
  }),
  route({
    ...managed,
    method: 'PUT',
    path: '/nodes/:id/permissions',
    summary: 'Set what a node may be asked to do',
    description:
      'A command needs the scope of its name, or of its family: `input.control` for every `input.*`, `app.manage` for every `app.*`. A connected node is told at once.',
    body: z.object({ scopes: z.array(Scope).max(MAX_SCOPES) }).meta({ id: 'NodePermissions' }),
    returns: Node,
    handle: ({ caller, params: { id }, body }) => service.setScopes(caller, id, [...new Set(body.scopes)]),
  }),
  route({
    ...managed,
    method: 'POST',
    path: '/nodes/:id/rotate-token',
    summary: "Make a node's token anew",
    description: 'The old one stays good until the new one is used, at most a minute.',
    returns: Rotated,
    handle: ({ caller, params: { id } }) => service.rotateToken(caller, id),
  }),
]

const commandRoutes = ({ directory, commands, ledger }: Parts): Route[] => [
  route({
    ...list,
    method: 'GET',
    path: '/nodes/:id/commands',
    summary: 'List the commands of a node, newest first',
    description: 'Without their results: those are at `/nodes/commands/{commandId}/wait`.',
    returns: pageOf(CommandRecord),
    handle: async ({ caller, params: { id }, query }) => {
      const page = await ledger.page(caller, await directory.visible(caller, id), query)
      return { ...page, items: page.items.map(toRecord) }
    },
  }),
  route({
    method: 'POST',
    path: '/nodes/:id/commands',
    access: { permission: 'ExecuteCommands' },
    limit: 'write',
    summary: 'Send a command to your node',
    description:
      'On disk when this answers, with 202. It waits for an offline node up to `Service:Nodes:QueueTtl`. Without the scope it is 403, and no command exists. With `Prefer: wait=SECONDS` one request does both: it answers as `/nodes/commands/{commandId}/wait` does, with 200 when the command has ended by then.',
    requestHeaders: {
      Prefer: `\`wait=SECONDS\` (RFC 7240), at most ${MAX_WAIT_MS / 1000}: wait that long for the command to end. Anything else is ignored`,
    },
    params: byId,
    body: NewCommand,
    returns: CommandOutcome,
    status: 202,
    otherStatuses: { 200: 'The command has ended within the time that the caller would wait' },
    handle: async request => {
      const { caller, body } = request
      const node = await directory.visible(caller, request.params.id)
      const waitSeconds = preferredWait(request.headers.prefer, MAX_WAIT_MS / 1000)
      if (waitSeconds === 0) {
        const { id: commandId, status } = await commands.enqueue(caller, node, body)
        return { commandId, status }
      }
      const outcome = await commands.run(caller, node, body, waitSeconds * 1000, request.signal)
      return new RecordReply(isOpen(outcome) ? 202 : 200, outcome, { 'Preference-Applied': `wait=${waitSeconds}` })
    },
  }),
  route({
    method: 'GET',
    path: '/nodes/commands/:commandId/wait',
    access: 'user',
    limit: 'read',
    summary: 'Wait for the result of a command',
    description:
      'Answers when the command has ended, or as it stands after `timeoutMs` (default 30,000). Text fields over 1,048,576 UTF-8 bytes are cut and listed in `truncated`; a node sends larger ones in parts.',
    params: byCommand,
    query: z.object({ timeoutMs: z.coerce.number().int().min(0).max(MAX_WAIT_MS).default(DEFAULT_WAIT_MS) }),
    returns: CommandOutcome,
    handle: ({ caller, params: { commandId }, query, signal }) =>
      commands.wait(() => ledger.visible(caller, commandId), commandId, query.timeoutMs, signal),
  }),
  route({
    method: 'POST',
    path: '/nodes/commands/:commandId/cancel',
    access: { permission: 'ExecuteCommands' },
    limit: 'decision',
    summary: 'Cancel a command',
    description: 'A result that comes after this is refused. 409 once the command is over.',
    params: byCommand,
    returns: CommandOutcome,
    handle: ({ caller, params: { commandId } }) => commands.cancel(caller, commandId),
  }),
]
