import { z } from 'zod'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import { Node } from './contract.js'
import type { Pairing } from './pairing.js'
import { MAX_SCOPES, Scope } from './protocol.js'
import { NodeId, PendingNode } from './records.js'
import type { NodeService } from './service.js'
import { toPending } from './view.js'

const Secret = z.string().min(16).max(256)
const Label = z.string().trim().min(1).max(200)

const Request = z
  .object({
    nodeId: NodeId,
    pairingSecret: Secret.optional().describe(
      'At least 16 characters, better 128 random bits. Where none is sent, one is made and returned once',
    ),
    name: Label.optional(),
    platform: Label.optional(),
    version: Label.optional(),
    capabilities: z.array(z.string().min(1).max(100)).max(200).optional(),
  })
  .meta({ id: 'PairingRequest' })

const Requested = z
  .object({
    status: z.literal('pending'),
    pairingCode: z.string(),
    expiresAt: z.string(),
    pairingSecret: z.string().optional().describe('Only where the request brought none'),
  })
  .meta({ id: 'PairingRequested' })

const Status = z.object({ status: z.enum(['pending', 'approved', 'rejected', 'expired', 'unknown']) }).meta({ id: 'PairingStatus' })

const Polled = z
  .object({
    status: z.enum(['pending', 'approved', 'rejected', 'expired']),
    pairingCode: z.string().optional(),
    token: z.string().optional(),
    gatewayUrl: z.string().optional(),
  })
  .meta({ id: 'PairingPoll' })

const byId = z.object({ id: z.string().min(1).max(64) })
const managed = { access: { permission: 'ManageNodes' }, limit: 'decision', params: byId } as const

/** How a machine becomes a node: what it calls itself, without a token, and what decides about it. */
export const pairingRoutes = (pairing: Pairing, service: NodeService): Route[] => [
  route({
    method: 'POST',
    path: '/nodes/pairing/request',
    access: 'public',
    limit: 'write',
    summary: 'Ask to be paired',
    description:
      'The code is for a person to compare. Asking again with the same secret is the same request; with another one while it waits, or once the node is paired, it is 409. A request lives for 15 minutes.',
    body: Request,
    returns: Requested,
    status: 202,
    handle: async ({ address, body }) => {
      const { nodeId, pairingSecret, name = nodeId, platform = null, version = null, capabilities = [] } = body
      const { row, secret } = await pairing.request(address, { nodeId, pairingSecret, name, platform, version, capabilities })
      return {
        status: 'pending' as const,
        pairingCode: row.pairingCode,
        expiresAt: row.secretUntil,
        ...(secret === undefined ? {} : { pairingSecret: secret }),
      }
    },
  }),
  route({
    method: 'GET',
    path: '/nodes/pairing/:nodeId/status',
    access: 'public',
    limit: 'node',
    summary: 'How the pairing of a node stands',
    params: z.object({ nodeId: z.string().min(1).max(200) }),
    returns: Status,
    handle: async ({ params }) => ({ status: await pairing.status(params.nodeId) }),
  }),
  route({
    method: 'POST',
    path: '/nodes/me/pair',
    access: 'public',
    // Polling is never refused; wrong secrets are counted where they are found.
    limit: 'none',
    summary: 'Poll the own pairing, every 3 s',
    description:
      'Once approved it answers with the token, this once; after that it is 409. A wrong secret and an unknown node are the same 401; guessing on is 429.',
    body: z.object({ nodeId: z.string().max(200), pairingSecret: z.string().max(256) }).meta({ id: 'PairingPollRequest' }),
    returns: Polled,
    handle: ({ address, body }) => pairing.poll(address, body.nodeId, body.pairingSecret),
  }),
  route({
    method: 'GET',
    path: '/nodes/pending',
    access: { permission: 'ManageNodes' },
    limit: 'read',
    summary: 'List the nodes that ask to be paired',
    query: z.object(pageQuery),
    returns: pageOf(PendingNode),
    handle: async ({ query }) => {
      const page = await pairing.pending(query)
      return { ...page, items: page.items.map(toPending) }
    },
  }),
  route({
    ...managed,
    method: 'POST',
    path: '/nodes/:id/approve',
    summary: 'Approve a node that asks to be paired',
    description: 'You become its owner. Compare the pairing code first.',
    body: z
      .object({ scopes: z.array(Scope).max(MAX_SCOPES).optional() })
      .optional()
      .meta({ id: 'NodeApproval' }),
    returns: Node,
    handle: ({ caller, params: { id }, body }) => service.approve(caller, id, [...new Set(body?.scopes ?? [])]),
  }),
  route({
    ...managed,
    method: 'POST',
    path: '/nodes/:id/reject',
    summary: 'Reject a node that asks to be paired',
    returns: z.object({ id: z.string(), status: z.literal('rejected') }).meta({ id: 'NodeRejection' }),
    handle: async ({ caller, params: { id } }) => {
      await service.reject(caller, id)
      return { id, status: 'rejected' as const }
    },
  }),
]
