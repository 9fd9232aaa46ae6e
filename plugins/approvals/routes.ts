import { z } from 'zod'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import { Approval, ApprovalParams } from './contract.js'
import type { ApprovalService } from './service.js'

const params = z.object({ id: z.string().min(1).max(200) })
const query = z.object(pageQuery)
const decision = { access: { permission: 'ManageApprovals' }, limit: 'decision', params, returns: Approval } as const
const once = 'A verdict is final: deciding again, or after `expiresAt`, is 409.'

export const approvalRoutes = (service: ApprovalService): Route[] => [
  route({
    method: 'GET',
    path: '/approvals',
    access: 'user',
    limit: 'read',
    summary: 'List the actions that wait for your approval, newest first',
    query,
    returns: pageOf(Approval),
    handle: ({ caller, query }) => service.pending(caller, query),
  }),
  route({
    method: 'GET',
    path: '/approvals/history',
    access: 'user',
    limit: 'read',
    summary: 'List what was decided or has expired, newest first',
    description: 'Kept for 90 days.',
    query,
    returns: pageOf(Approval),
    handle: ({ caller, query }) => service.history(caller, query),
  }),
  route({
    method: 'GET',
    path: '/approvals/:id',
    access: 'user',
    limit: 'read',
    summary: 'One approval',
    params,
    returns: Approval,
    handle: ({ caller, params: { id } }) => service.get(caller, id),
  }),
  route({
    ...decision,
    method: 'POST',
    path: '/approvals/:id/approve',
    summary: 'Approve a pending action as it was asked for',
    description: once,
    handle: ({ caller, params: { id } }) => service.decide(caller, id, { state: 'approved' }),
  }),
  route({
    ...decision,
    method: 'POST',
    path: '/approvals/:id/edit',
    summary: 'Approve a pending action with other parameters',
    description: once,
    body: z.object({ params: ApprovalParams }).meta({ id: 'ApprovalEdit' }),
    handle: ({ caller, params: { id }, body }) => service.decide(caller, id, { state: 'edited', params: body.params }),
  }),
  route({
    ...decision,
    method: 'POST',
    path: '/approvals/:id/reject',
    summary: 'Reject a pending action',
    description: once,
    body: z
      .object({ reason: z.string().trim().min(1).max(1000).optional() })
      .optional()
      .meta({ id: 'ApprovalRejection' }),
    handle: ({ caller, params: { id }, body }) => service.decide(caller, id, { state: 'rejected', reason: body?.reason }),
  }),
]
