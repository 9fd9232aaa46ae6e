import { randomUUID } from 'node:crypto'
import { conflict, GatewayError, notAuthorized, rateLimited } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { DuplicateKey, type Owner } from '../../core/store/collection.js'
import type { Approval, Approvals } from '../approvals/contract.js'
import type { DirectCalls } from './calls.js'
import type { CommandOutcome, NewCommand } from './contract.js'
import { ANSWER_GRACE_MS, timedOut, type Dispatcher } from './dispatcher.js'
import type { Followed } from './followed.js'
import { isOpen, type KnownCommand, type Ledger } from './ledger.js'
import { DEFAULT_TIMEOUT_MS, idOf, toRow } from './newCommand.js'
import type { Presence } from './presence.js'
import type { Reach } from './reach.js'
import type { CommandRow, NodeRow } from './rows.js'
import { isInScope, needsApproval, scopesFor, type CriticalPolicy } from './scopes.js'
import type { NodeSession } from './session.js'
import type { Waiters } from './waiters.js'

export const APPROVAL_KIND = 'node-command'
const APPROVAL_PREFIX = 'apr_'
/** Commands that are looked up at once. */
const LOOK_BATCH = 500

interface Parts {
  ledger: Ledger
  dispatcher: Dispatcher
  presence: Presence
  reach: Reach
  /** Where commands may end at other gateways. */
  followed: Followed | undefined
  approvals: Approvals
  waiters: Waiters<CommandRow>
  calls: DirectCalls
  policy: () => CriticalPolicy
  /** By the clock of all gateways. */
  now: () => number
  queueTtlMs: () => number
  maxQueued: () => number
}

/** Commands from the wish to the end: the permission and the approval gate, the queue, cancelling and waiting. */
export class Commands {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /**
   * Takes a command for a node of the owner. On disk when it resolves. Rejects with `not_authorized` when the node lacks
   * the scope, with `rate_limited` when too many wait; no command exists then. `withinMs`: how long it may take to hand it to
   * the gateway of the node, if that is another one; after it the store does it.
   */
  async enqueue(owner: Owner, node: NodeRow, wanted: NewCommand, withinMs?: number): Promise<CommandRow> {
    const { presence, ledger } = this.#parts
    if (node.ownerId !== owner.userId) throw notAuthorized('Only the owner of a node may send it commands')
    const id = wanted.key === undefined ? randomUUID() : idOf(owner, wanted.key)
    const known = wanted.key === undefined ? null : await ledger.find(id)
    if (known) return known
    if (node.state !== 'approved') throw conflict(`The node ${node.id} is revoked: pair it again`)
    if (!isInScope(wanted.command, node.scopes)) throw missingScope(wanted.command)
    const isCritical = needsApproval(wanted.command, wanted.agentId !== undefined, this.#parts.policy())
    const session = presence.session(node.id)
    return this.#once(id, async () => {
      if (!isCritical && session?.hasRoom) return this.#sendNow(id, owner, session, wanted)
      const status = isCritical || session ? undefined : await this.#parts.reach.take(owner, node.id, id, wanted, withinMs)
      if (status !== undefined) return { ...this.#newRow(id, owner, node.id, wanted, 'queued'), status }
      await this.#checkRoom(node.id)
      const row = this.#newRow(id, owner, node.id, wanted, isCritical ? 'awaiting_approval' : 'queued')
      await ledger.insert(owner, row)
      if (isCritical) await this.#ask({ ...row, tenant: owner.tenant })
      else this.#wake(node.id)
      return row
    })
  }

  /** One write for both, the command and its dispatch. Should the connection break meanwhile, the next one gets it. */
  async #sendNow(id: string, owner: Owner, session: NodeSession, wanted: NewCommand): Promise<CommandRow> {
    const nodeId = session.node.id
    const row = this.#newRow(id, owner, nodeId, wanted, 'dispatched')
    session.reserved += 1
    try {
      await this.#parts.ledger.insert(owner, row)
    } finally {
      session.reserved -= 1
    }
    this.#parts.dispatcher.deliver({ ...row, tenant: owner.tenant })
    // It may be connected to another gateway by now.
    if (session.isEnded) this.#wake(nodeId)
    return row
  }

  /** Takes a command that another gateway has checked for a node that is connected here. */
  async take(owner: Owner, session: NodeSession, id: string, wanted: NewCommand): Promise<Pick<CommandRow, 'status'>> {
    return this.#once(id, async () => {
      if (session.hasRoom && isInScope(wanted.command, session.scopes)) return this.#sendNow(id, owner, session, wanted)
      await this.#checkRoom(session.node.id)
      const row = this.#newRow(id, owner, session.node.id, wanted, 'queued')
      await this.#parts.ledger.insert(owner, row)
      this.#wake(session.node.id)
      return row
    })
  }

  /** What is on disk already counts: it was asked for with the same key at the same moment, or handed to a gateway that then fell silent. */
  async #once(id: string, put: () => Promise<CommandRow>): Promise<CommandRow> {
    try {
      return await put()
    } catch (error) {
      const first = error instanceof DuplicateKey ? await this.#parts.ledger.find(id) : null
      if (!first) throw error
      if (first.status === 'queued') this.#wake(first.nodeId)
      return first
    }
  }

  /** Sends a command over a connection at once, without keeping it. */
  async call(owner: Owner, session: NodeSession | undefined, wanted: NewCommand): Promise<CommandOutcome> {
    const { command, params = {}, timeoutMs = DEFAULT_TIMEOUT_MS, agentId, sessionId } = wanted
    if (session && !isInScope(command, session.scopes)) throw missingScope(command)
    if (needsApproval(command, agentId !== undefined, this.#parts.policy()))
      throw notAuthorized(`${command} has to be approved first: it cannot be called directly`)
    const originatedBy = { userId: owner.userId, agentId: agentId ?? '', sessionId: sessionId ?? '' }
    return this.#parts.calls.call(session, { command, params, timeoutMs, originatedBy })
  }

  /** Rejects with `conflict` when it is over already. */
  async cancel(caller: Caller, id: string): Promise<CommandOutcome> {
    const { ledger } = this.#parts
    await ledger.visible(caller, id)
    const row = await this.end(id, 'Cancelled by a user')
    if (!row) throw conflict('The command is over already: it cannot be cancelled', { status: (await ledger.visible(caller, id)).status })
    return ledger.outcome(row)
  }

  /** Cancels a command, with its approval. `null`: it is over already. */
  async end(id: string, message: string): Promise<KnownCommand | null> {
    const row = await this.#parts.ledger.endByGateway(id, { status: 'cancelled', error: { code: 'cancelled', message } })
    if (row?.needsApproval) await this.#withdraw(row, 'the command was cancelled')
    return row
  }

  /** The command once it is over, or as it stands when the time is over, the signal aborts or the gateway stops. */
  async wait(find: () => Promise<CommandRow>, id: string, timeoutMs: number | undefined, signal: AbortSignal): Promise<CommandOutcome> {
    const { waiters, ledger } = this.#parts
    if (timeoutMs === 0) return ledger.outcome(await find())
    const { ended, stop } = waiters.wait(id, timeoutMs, signal)
    const following = this.#parts.followed?.follow(id, this.#parts.dispatcher.holds(id))
    try {
      // A Redis that does not answer takes no more time than there is.
      if (following) await Promise.race([following.listening, ended])
      const row = await find()
      return await ledger.outcome(isOpen(row) ? ((await ended) ?? (await find())) : row)
    } finally {
      stop()
      following?.stop()
    }
  }

  /** Takes a command as `enqueue` does, and waits for it as `wait` does, both in this time; when too many wait already, not at all. */
  async run(caller: Caller, node: NodeRow, wanted: NewCommand, timeoutMs: number, signal: AbortSignal): Promise<CommandOutcome> {
    const until = performance.now() + timeoutMs
    const row = await this.enqueue(caller, node, wanted, timeoutMs)
    const leftMs = Math.max(0, until - performance.now())
    // What was sent from here, in this turn, has not ended: it is not read again.
    const known = this.#parts.dispatcher.holds(row.id) ? [row] : []
    try {
      return await this.wait(async () => known.pop() ?? this.#parts.ledger.visible(caller, row.id), row.id, leftMs, signal)
    } catch (error) {
      // Too many wait already. The command exists all the same: refused now, it would be sent twice.
      if (error instanceof GatewayError && error.code === 'rate_limited') return this.#parts.ledger.outcome(row)
      throw error
    }
  }

  /** Lets those who wait here know which of these commands ended elsewhere. */
  async look(ids: string[]): Promise<void> {
    for (const row of await this.#parts.ledger.ended(ids)) {
      this.#parts.dispatcher.ended(row)
      this.#parts.waiters.ended(row.id, row)
    }
  }

  /** The same for all that somebody waits for. */
  async lookAfterFollowed(): Promise<void> {
    const ids = this.#parts.followed?.ids ?? []
    for (let i = 0; i < ids.length; i += LOOK_BATCH) await this.look(ids.slice(i, i + LOOK_BATCH))
  }

  /** Ends everything that a node still has to do. */
  async endAll(nodeId: string, message: string): Promise<void> {
    const { ledger } = this.#parts
    for (;;) {
      const open = await ledger.openOf(nodeId)
      for (const { id } of open) {
        const row = await ledger.endByGateway(id, { status: 'failed', error: { code: 'not_authorized', message } })
        if (row?.needsApproval) await this.#withdraw(row, message)
      }
      if (open.length === 0) return
    }
  }

  /** Ends what is past its time; commands that this gateway has dispatched have timers of their own, which no change of a clock moves. */
  async sweep(): Promise<void> {
    const { ledger, dispatcher } = this.#parts
    const inFlightUntil = new Date(this.#parts.now() - ANSWER_GRACE_MS).toISOString()
    for (const { id, status, dueAt = '', needsApproval: asked } of await ledger.due()) {
      if ((status === 'dispatched' || status === 'running') && (dueAt > inFlightUntil || dispatcher.holds(id))) continue
      const message = {
        awaiting_approval: 'Nobody approved the command in time',
        queued: 'The node did not take the command in time',
      }[status as string]
      const row = await ledger.endByGateway(id, timedOut(message ?? 'The node did not finish the command in time'), [status])
      if (row && asked) await this.#withdraw(row, 'its time was over')
    }
  }

  /** The approval of a command was decided. */
  async decided(approvalId: string): Promise<void> {
    const row = await this.#parts.ledger.find(approvalId.slice(APPROVAL_PREFIX.length))
    if (row?.status === 'awaiting_approval') await this.#settle(row)
  }

  /** Looks after every command that waits for its approval: a gateway may have died between the two. */
  async reconcile(): Promise<void> {
    for (const row of await this.#parts.ledger.awaitingApproval()) await this.#settle(row)
  }

  async #settle(row: KnownCommand): Promise<void> {
    const owner = ownerOf(row)
    const approval = (await this.#parts.approvals.find(owner, approvalOf(row))) ?? (await this.#ask(row))
    if (approval.state === 'approved' || approval.state === 'edited') await this.#release(row, approval)
    else if (approval.state !== 'pending') {
      const because = approval.reason === undefined ? '' : `: ${approval.reason}`
      const error = { code: 'approval_rejected', message: `The command was not approved${because}` }
      await this.#parts.ledger.endByGateway(row.id, { status: 'failed', error }, ['awaiting_approval'])
    }
  }

  async #release(row: KnownCommand, approval: Approval): Promise<void> {
    const dueAt = new Date(this.#parts.now() + this.#parts.queueTtlMs()).toISOString()
    if (await this.#parts.ledger.release(row.id, JSON.stringify(approval.action.params), dueAt)) this.#wake(row.nodeId)
  }

  async #ask(row: KnownCommand): Promise<Approval> {
    const { approvals, ledger } = this.#parts
    try {
      return await approvals.request(ownerOf(row), {
        id: approvalOf(row),
        kind: APPROVAL_KIND,
        title: `${row.command} on ${row.nodeId}`,
        action: { name: row.command, params: JSON.parse(await ledger.params(row)) as Record<string, unknown> },
        requestedBy: row.agentId === null ? 'user' : 'agent',
        nodeId: row.nodeId,
        ...(row.agentId === null ? {} : { agentId: row.agentId }),
        ...(row.sessionId === null ? {} : { sessionId: row.sessionId }),
        expiresAt: row.dueAt ?? row.createdAt,
      })
    } catch (error) {
      const message = error instanceof GatewayError ? error.message : 'The approval could not be asked for'
      await ledger.endByGateway(row.id, { status: 'failed', error: { code: 'approval_rejected', message } })
      throw error
    }
  }

  async #withdraw(row: KnownCommand, reason: string): Promise<void> {
    await this.#parts.approvals.withdraw(ownerOf(row), approvalOf(row), reason)
  }

  /** What is in the queue goes out when the node is there. */
  #wake(nodeId: string): void {
    this.#parts.reach.wake(nodeId)
  }

  async #checkRoom(nodeId: string): Promise<void> {
    if ((await this.#parts.ledger.waiting(nodeId)) >= this.#parts.maxQueued())
      throw rateLimited(30, `${this.#parts.maxQueued()} commands wait for the node ${nodeId} already`)
  }

  #newRow(id: string, owner: Owner, nodeId: string, wanted: NewCommand, status: 'queued' | 'dispatched' | 'awaiting_approval'): CommandRow {
    return toRow(owner, wanted, { id, nodeId, status, queueTtlMs: this.#parts.queueTtlMs(), now: this.#parts.now() })
  }
}

const approvalOf = ({ id }: CommandRow): string => `${APPROVAL_PREFIX}${id}`

const ownerOf = ({ tenant, ownerId }: KnownCommand): Owner => ({ tenant, userId: ownerId })

const missingScope = (command: string): GatewayError => {
  const scopes = scopesFor(command)
  return notAuthorized(`The node is not allowed ${command}: that needs the scope ${scopes.join(' or ')}`, { scope: scopes.at(-1), scopes })
}
