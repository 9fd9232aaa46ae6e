import { z } from 'zod'
import { event, service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export const ApprovalState = z.enum(['pending', 'approved', 'edited', 'rejected', 'expired'])
export type ApprovalState = z.infer<typeof ApprovalState>

export const ApprovalParams = z.record(z.string(), z.unknown())

export const Approval = z
  .object({
    id: z.string(),
    /** What area asks, for example `node-command`. */
    kind: z.string(),
    title: z.string(),
    action: z.object({ name: z.string(), params: ApprovalParams }).describe('With the parameters that are or would be used'),
    /** Who asks: `agent`, `user`. */
    requestedBy: z.string(),
    agentId: z.string().optional(),
    sessionId: z.string().optional(),
    nodeId: z.string().optional(),
    state: ApprovalState,
    createdAt: z.string(),
    expiresAt: z.string().optional().describe('Until when it can be decided'),
    decidedAt: z.string().optional(),
    /** The user who decided; absent when nobody did in time. */
    decidedBy: z.string().optional(),
    reason: z.string().optional(),
    requestedParams: ApprovalParams.optional().describe('Of an edited one: the parameters that were asked for'),
  })
  .meta({ id: 'Approval' })
export type Approval = z.infer<typeof Approval>

export interface NewApproval {
  /** The requester's own name for it, `apr_...`: asking again with the same id is the same request. */
  id: string
  kind: string
  title: string
  action: { name: string; params: Record<string, unknown> }
  requestedBy: string
  agentId?: string
  sessionId?: string
  nodeId?: string
  /** ISO time after which it cannot be decided any more. */
  expiresAt: string
}

/** The gate for actions that a person has to allow. */
export interface Approvals {
  /**
   * Asks the owner. On disk when it resolves, with the approval as it stands now. Rejects with `rate_limited` when too
   * many wait for this owner already, with `payload_too_large` when the parameters are more than a person can look at.
   */
  request(owner: Owner, approval: NewApproval): Promise<Approval>
  /** `null`: there is none (any more). */
  find(owner: Owner, id: string): Promise<Approval | null>
  /** What was asked for is no longer wanted: it cannot be decided from here on. No effect on a decided one. */
  withdraw(owner: Owner, id: string, reason: string): Promise<void>
}

export const approvals = service<Approvals>('approvals')

/**
 * An approval left the state `pending`. Emitted once by the gateway that decided; whoever depends on it also looks
 * with `find` from time to time, since a gateway may die between the decision and the event.
 */
export const approvalDecided = event('approvals.decided', z.object({ id: z.string(), kind: z.string(), state: ApprovalState }))
