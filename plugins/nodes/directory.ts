import { notFound, unauthenticated } from '../../core/errors.js'
import { hasPermission, type Caller } from '../../core/http/caller.js'
import { DuplicateKey, type Collection, type Owned, type Page, type PageOptions, type ScopedHandle } from '../../core/store/collection.js'
import type { NodeRow, PairingRow } from './rows.js'
import { hashOf, matches, newSecret, parseToken, tokenOf } from './tokens.js'

/** Nodes written at once when many were last seen. */
const SEEN_BATCH = 500

export type KnownNode = Owned<NodeRow, 'tenant'>

/** A node behind a token, and the hash that proved it: a rotation makes that one stale. */
export interface Authenticated {
  node: KnownNode
  tokenHash: string
}

/** The paired nodes: who owns them, what they may do, and what proves that they are who they say. */
export class Directory {
  readonly #handle: ScopedHandle<NodeRow, 'tenant'>
  /** How long the token before a rotation stays good when the new one is not used. */
  readonly #graceMs: () => number
  readonly #now: () => number

  /** `now`: by the clock of all gateways. */
  constructor(handle: ScopedHandle<NodeRow, 'tenant'>, graceMs: () => number, now: () => number) {
    this.#handle = handle
    this.#graceMs = graceMs
    this.#now = now
  }

  /** Whoever's it is: for the gateway's own work. */
  find(id: string): Promise<KnownNode | null> {
    return this.#all.findOne({ id })
  }

  /** The nodes that a caller sees: its own, and with `ManageNodes` every one of its tenant. */
  page(caller: Caller, options: PageOptions): Promise<Page<NodeRow>> {
    return this.#handle.for(caller).page(hasPermission(caller, 'ManageNodes') ? {} : { ownerId: caller.userId }, options)
  }

  /** Rejects with `not_found` for what the caller does not see. */
  async visible(caller: Caller, id: string): Promise<NodeRow> {
    const row = await this.#handle.for(caller).findOne({ id })
    if (!row || (row.ownerId !== caller.userId && !hasPermission(caller, 'ManageNodes'))) throw notFound('Node')
    return row
  }

  ownedBy(owner: { tenant: string | null; userId: string }): Promise<NodeRow[]> {
    return this.#handle.for(owner).find({ ownerId: owner.userId, state: 'approved' }, { sort: { createdAt: 1 }, limit: 200 })
  }

  /** Makes the node of an approved pairing, once; a revoked one of that name becomes it. */
  async admit(pairing: PairingRow): Promise<KnownNode> {
    const { id, approval } = pairing
    if (!approval) throw new TypeError(`The pairing of ${id} is not approved`)
    const known = await this.find(id)
    if (known?.pairing === pairing.key) return known
    const node = nodeOf(pairing, approval)
    if (known) {
      const { id: _, ...fields } = node
      const replaced = await this.#all.findOneAndUpdate({ id, pairing: known.pairing }, { $set: { ...fields, tenant: approval.tenant } })
      return replaced ?? (await this.#get(id))
    }
    try {
      await this.#handle.for(approval).insertOne(node)
    } catch (error) {
      if (!(error instanceof DuplicateKey)) throw error
    }
    return this.#get(id)
  }

  /** Sets the token of a newly paired node. False when it has one: it was handed out already. */
  firstToken(pairing: PairingRow, tokenHash: string): Promise<boolean> {
    return this.#all.updateOne({ id: pairing.id, pairing: pairing.key, state: 'approved', tokenHash: null }, { $set: { tokenHash } })
  }

  /** Rejects with `unauthenticated` when the token is malformed, wrong, or its node not approved. */
  async authenticate(token: string | undefined): Promise<Authenticated> {
    const parsed = parseToken(token)
    const node = parsed ? await this.find(parsed.nodeId) : null
    const hash = hashOf(parsed?.secret ?? '')
    const isCurrent = matches(hash, node?.tokenHash ?? null)
    const isOld = matches(hash, node?.oldTokenHash ?? null) && node !== null && (node.oldTokenUntil ?? '') > this.#at()
    if (node?.state !== 'approved' || !(isCurrent || isOld))
      throw unauthenticated('The node token is not valid, or the node is not approved')
    if (isCurrent && node.oldTokenHash !== null) await this.#endRotation(node)
    return { node, tokenHash: hash }
  }

  /**
   * A new token, shown once. The one in use stays good until the new one is used, at most a minute; of several
   * rotations in that minute, too.
   */
  async rotate(row: NodeRow): Promise<{ token: string; oldTokenUntil: string | null }> {
    const secret = newSecret()
    const isRotating = row.oldTokenHash !== null && (row.oldTokenUntil ?? '') > this.#at()
    const until = row.tokenHash === null ? null : this.#at(this.#graceMs())
    const old = isRotating
      ? { oldTokenHash: row.oldTokenHash, oldTokenUntil: row.oldTokenUntil }
      : { oldTokenHash: row.tokenHash, oldTokenUntil: until }
    const changed = await this.#all.findOneAndUpdate(
      { id: row.id, state: 'approved', tokenHash: row.tokenHash },
      { $set: { ...old, tokenHash: hashOf(secret), updatedAt: this.#at() } },
    )
    if (!changed) throw notFound('Node')
    return { token: tokenOf(row.id, secret), oldTokenUntil: old.oldTokenUntil }
  }

  /** The node behind a connection, when what proved it is still good; else what has become of it. */
  async confirm(id: string, tokenHash: string): Promise<KnownNode | 'revoked' | 'stale'> {
    const node = await this.find(id)
    if (node?.state !== 'approved') return 'revoked'
    const isOld = node.oldTokenHash === tokenHash && (node.oldTokenUntil ?? '') > this.#at()
    return node.tokenHash === tokenHash || isOld ? node : 'stale'
  }

  /** By their last change since then; when they were seen is none. */
  changedSince(since: string, limit: number): Promise<KnownNode[]> {
    return this.#all.find({ updatedAt: { $gte: since } }, { sort: { updatedAt: 1 }, limit })
  }

  setScopes(id: string, scopes: string[]): Promise<KnownNode | null> {
    const $set = { scopes, scopesChanged: true, updatedAt: this.#at() }
    return this.#all.findOneAndUpdate({ id, state: 'approved' }, { $set })
  }

  /** The node has acknowledged these scopes; a change since then stays to be acknowledged. */
  async scopesAcknowledged(id: string, scopes: string[]): Promise<void> {
    await this.#all.updateOne({ id, scopes, scopesChanged: true }, { $set: { scopesChanged: false } })
  }

  /** `null`: it is revoked already. */
  revoke(id: string): Promise<KnownNode | null> {
    const $set = { state: 'revoked', tokenHash: null, oldTokenHash: null, oldTokenUntil: null, updatedAt: this.#at() }
    return this.#all.findOneAndUpdate({ id, state: 'approved' }, { $set })
  }

  async seen(ids: string[]): Promise<void> {
    const lastSeenAt = this.#at()
    for (let i = 0; i < ids.length; i += SEEN_BATCH)
      await this.#all.updateMany({ id: { $in: ids.slice(i, i + SEEN_BATCH) } }, { $set: { lastSeenAt } })
  }

  async #endRotation({ id, tokenHash }: KnownNode): Promise<void> {
    await this.#all.updateOne({ id, tokenHash }, { $set: { oldTokenHash: null, oldTokenUntil: null } })
  }

  async #get(id: string): Promise<KnownNode> {
    const node = await this.find(id)
    if (!node) throw notFound('Node')
    return node
  }

  #at(offsetMs = 0): string {
    return new Date(this.#now() + offsetMs).toISOString()
  }

  get #all(): Collection<KnownNode> {
    return this.#handle.everyone
  }
}

const nodeOf = (pairing: PairingRow, { ownerId, scopes, at }: NonNullable<PairingRow['approval']>): NodeRow => ({
  id: pairing.id,
  name: pairing.name,
  platform: pairing.platform,
  version: pairing.version,
  capabilities: pairing.capabilities,
  ownerId,
  state: 'approved',
  scopes,
  scopesChanged: false,
  pairing: pairing.key,
  tokenHash: null,
  oldTokenHash: null,
  oldTokenUntil: null,
  lastSeenAt: null,
  createdAt: at,
  updatedAt: at,
})
