import { conflict, notFound, payloadTooLarge, rateLimited } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { DuplicateKey, type Owned, type Owner, type Page, type PageOptions, type ScopedHandle } from '../../core/store/collection.js'
import type { Audit } from '../audit/contract.js'
import type { Approval, Approvals, ApprovalState, NewApproval } from './contract.js'

export interface ApprovalRow {
  id: string
  kind: string
  title: string
  name: string
  /** JSON: the keys are anyone's. */
  params: string
  requestedParams: string | null
  requestedBy: string
  agentId: string | null
  sessionId: string | null
  nodeId: string | null
  state: ApprovalState
  createdAt: string
  /** Until when it can be decided. */
  deadline: string
  decidedAt: string | null
  decidedBy: string | null
  reason: string | null
  /** When a decided one is forgotten. */
  expiresAt?: string
}

/** Approvals that may wait for one owner. */
export const MAX_PENDING = 500
/** Of the parameters, as JSON: a person has to look through them. */
export const MAX_PARAMS_BYTES = 256 * 1024
const RETENTION_MS = 90 * 86_400_000
/** Overdue approvals closed in one turn; the next turn goes on. */
const SWEEP_BATCH = 500

export type Verdict =
  { state: 'approved' } | { state: 'edited'; params: Record<string, unknown> } | { state: 'rejected'; reason?: string | undefined }

interface Parts {
  rows: ScopedHandle<ApprovalRow>
  audit: Audit
  /** By the clock of all gateways: any of them may decide what another was asked. */
  now: () => number
  /** Called after each change of state, once for an approval. */
  onDecided: (approval: Approval) => void
}

/** Approvals: each is decided once, by its owner or by its deadline. */
export class ApprovalService implements Approvals {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async request(owner: Owner, approval: NewApproval): Promise<Approval> {
    const rows = this.#parts.rows.for(owner)
    const row = toRow(approval, this.#at())
    checkSize(row.params)
    try {
      await rows.insertOne(row)
    } catch (error) {
      const known = error instanceof DuplicateKey ? await this.find(owner, approval.id) : null
      if (known) return known
      throw error
    }
    // Counted after the insertion, so that many at once cannot pass the limit.
    if ((await rows.count({ state: 'pending' })) > MAX_PENDING) {
      await rows.deleteOne({ id: row.id, state: 'pending' })
      throw rateLimited(60, `${MAX_PENDING} actions wait for approval already: decide some of them`)
    }
    return this.#toApproval(row)
  }

  async find(owner: Owner, id: string): Promise<Approval | null> {
    const row = await this.#parts.rows.for(owner).findOne({ id })
    return row && this.#toApproval(row)
  }

  async withdraw(owner: Owner, id: string, reason: string): Promise<void> {
    await this.#close(owner, id, 'expired', { reason })
  }

  /** Rejects with `not_found` for another's approval. */
  async get(owner: Owner, id: string): Promise<Approval> {
    const approval = await this.find(owner, id)
    if (!approval) throw notFound('Approval')
    return approval
  }

  pending(owner: Owner, options: PageOptions): Promise<Page<Approval>> {
    return this.#page(owner, { state: 'pending', deadline: { $gt: this.#at() } }, options)
  }

  history(owner: Owner, options: PageOptions): Promise<Page<Approval>> {
    return this.#page(owner, { state: { $ne: 'pending' } }, options)
  }

  /** Rejects with `conflict` once it is decided or overdue: a verdict is final. */
  async decide(caller: Caller, id: string, verdict: Verdict): Promise<Approval> {
    const before = await this.get(caller, id)
    if (verdict.state === 'edited') checkSize(JSON.stringify(verdict.params))
    const decided = await this.#close(caller, id, verdict.state, {
      decidedBy: caller.userId,
      ...(verdict.state === 'rejected' && verdict.reason !== undefined ? { reason: verdict.reason } : {}),
      ...(verdict.state === 'edited'
        ? { params: JSON.stringify(verdict.params), requestedParams: JSON.stringify(before.action.params) }
        : {}),
    })
    if (!decided) {
      const { state } = await this.get(caller, id)
      throw conflict(`The approval is ${state} already: it cannot be decided again`, { state })
    }
    await this.#parts.audit.record(caller, { action: `approvals.${verdict.state}`, target: id, details: { action: decided.action.name } })
    return decided
  }

  /** Closes what nobody decided in time. */
  async expire(): Promise<void> {
    const overdue = await this.#parts.rows.everyone.find(
      { state: 'pending', deadline: { $lte: this.#at() } },
      { sort: { deadline: 1 }, limit: SWEEP_BATCH },
    )
    for (const row of overdue) await this.#close(row, row.id, 'expired', { reason: 'nobody decided in time' })
  }

  async #close(owner: Owner, id: string, state: ApprovalState, fields: Partial<ApprovalRow>): Promise<Approval | null> {
    const now = this.#at()
    const row = await this.#parts.rows.for(owner).findOneAndUpdate(
      // An overdue one can only expire.
      { id, state: 'pending', ...(state === 'expired' ? {} : { deadline: { $gt: now } }) },
      {
        // Forgotten by the store, which goes by the clock of the machine.
        $set: { ...fields, state, decidedAt: now, expiresAt: new Date(Date.now() + RETENTION_MS).toISOString() },
      },
    )
    if (!row) return null
    const approval = this.#toApproval(row)
    this.#parts.onDecided(approval)
    return approval
  }

  async #page(owner: Owner, filter: Record<string, unknown>, options: PageOptions): Promise<Page<Approval>> {
    const page = await this.#parts.rows.for(owner).page(filter, options)
    return { ...page, items: page.items.map(row => this.#toApproval(row)) }
  }

  #toApproval(row: ApprovalRow | Owned<ApprovalRow>): Approval {
    return toApproval(row, this.#at())
  }

  #at(): string {
    return new Date(this.#parts.now()).toISOString()
  }
}

const checkSize = (params: string): void => {
  if (Buffer.byteLength(params) > MAX_PARAMS_BYTES) throw payloadTooLarge('What has to be approved', MAX_PARAMS_BYTES)
}

const toRow = ({ action, expiresAt, agentId, sessionId, nodeId, ...approval }: NewApproval, createdAt: string): ApprovalRow => ({
  ...approval,
  name: action.name,
  params: JSON.stringify(action.params),
  requestedParams: null,
  agentId: agentId ?? null,
  sessionId: sessionId ?? null,
  nodeId: nodeId ?? null,
  state: 'pending',
  createdAt,
  deadline: expiresAt,
  decidedAt: null,
  decidedBy: null,
  reason: null,
})

const toApproval = (row: ApprovalRow | Owned<ApprovalRow>, now: string): Approval => ({
  id: row.id,
  kind: row.kind,
  title: row.title,
  action: { name: row.name, params: JSON.parse(row.params) as Record<string, unknown> },
  requestedBy: row.requestedBy,
  // Past its deadline it is expired, also before the sweep comes by.
  state: row.state === 'pending' && row.deadline <= now ? 'expired' : row.state,
  createdAt: row.createdAt,
  expiresAt: row.deadline,
  ...(row.agentId === null ? {} : { agentId: row.agentId }),
  ...(row.sessionId === null ? {} : { sessionId: row.sessionId }),
  ...(row.nodeId === null ? {} : { nodeId: row.nodeId }),
  ...(row.decidedAt === null ? {} : { decidedAt: row.decidedAt }),
  ...(row.decidedBy === null ? {} : { decidedBy: row.decidedBy }),
  ...(row.reason === null ? {} : { reason: row.reason }),
  ...(row.requestedParams === null ? {} : { requestedParams: JSON.parse(row.requestedParams) as Record<string, unknown> }),
})
