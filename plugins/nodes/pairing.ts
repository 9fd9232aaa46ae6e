import { randomInt } from 'node:crypto'
import type { Cluster } from '../../core/cluster/cluster.js'
import { conflict, notFound, rateLimited, unauthenticated } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { newId } from '../../core/id.js'
import { DuplicateKey, type Collection, type Owner, type Page, type PageOptions } from '../../core/store/collection.js'
import type { Directory } from './directory.js'
import { Guesses } from './guesses.js'
import type { NodeProfile, PairingRow } from './rows.js'
import { hashOf, matches, newSecret, tokenOf } from './tokens.js'

export const SECRET_LIFETIME_MS = 15 * 60_000
/** Rejected and expired requests are remembered this long, so that the node hears of it. */
const REMEMBERED_MS = 86_400_000
/** Letters and digits that cannot be taken for one another. */
const CODE_ALPHABET = 'ABCDEFGHJKLMNPQRSTUVWXYZ23456789'
const CODE_LENGTH = 8

export interface PairingRequest extends NodeProfile {
  nodeId: string
  pairingSecret?: string | undefined
}

export type PairingStatus = 'pending' | 'approved' | 'rejected' | 'expired' | 'unknown'

/** What the node's poll is answered with. */
export type PairingAnswer =
  | { status: 'pending'; pairingCode: string }
  | { status: 'approved'; token: string; gatewayUrl: string }
  | { status: 'rejected' | 'expired' }

interface Parts {
  rows: Collection<PairingRow>
  directory: Directory
  publicUrl: () => string
  maxPending: () => number
  maxPendingPerAddress: () => number
  /** Makes the counters of wrong secrets. */
  limiter: Cluster['limiter']
  now?: () => number
}

/** How a machine becomes a node: it asks, a person approves, it collects its token once. */
export class Pairing {
  readonly #parts: Parts
  readonly #guesses: Guesses

  constructor(parts: Parts) {
    this.#parts = parts
    this.#guesses = new Guesses({ limiter: parts.limiter, keyPrefix: 'pairing', message: 'Too many wrong pairing secrets' })
  }

  /** Rejects with `conflict` while another request of the node waits or it is paired, with `rate_limited` when too many wait. */
  async request(address: string, { nodeId, pairingSecret, ...profile }: PairingRequest): Promise<{ row: PairingRow; secret?: string }> {
    const secret = pairingSecret ?? newSecret()
    const secretHash = hashOf(secret)
    const known = await this.#parts.rows.findOne({ id: nodeId })
    const node = await this.#parts.directory.find(nodeId)
    if (node?.state === 'approved' || (known?.state === 'approved' && node?.pairing !== known.key))
      throw conflict(`The node ${nodeId} is paired already: revoke it before it is paired anew`)
    const isSame = known !== null && matches(secretHash, known.secretHash)
    if (known?.state === 'pending' && this.#isAlive(known)) {
      if (isSame) return { row: known }
      throw conflict(`A pairing request of ${nodeId} waits already: approve or reject it first`)
    }
    if (isSame && known.state === 'pending') throw conflict('This pairing secret has expired: ask again with a new one')
    await this.#checkRoom(address)
    const row = this.#newRow(address, nodeId, profile, secretHash)
    if (!(await this.#place(row, known))) throw conflict(`Another pairing request of ${nodeId} came first: ask again`)
    return { row, ...(pairingSecret === undefined ? { secret } : {}) }
  }

  /** What anyone may know. */
  async status(nodeId: string): Promise<PairingStatus> {
    const [row, node] = await Promise.all([this.#parts.rows.findOne({ id: nodeId }), this.#parts.directory.find(nodeId)])
    if (row && row.state !== 'approved') return row.state === 'pending' && !this.#isAlive(row) ? 'expired' : row.state
    return node?.state === 'approved' || (row && node?.pairing !== row.key) ? 'approved' : 'unknown'
  }

  /**
   * The node asks how it stands. Rejects with `unauthenticated` for an unknown node and a wrong secret, which are not told
   * apart, and with `conflict` once the token has been handed out.
   */
  async poll(address: string, nodeId: string, pairingSecret: string): Promise<PairingAnswer> {
    await this.#guesses.check(address, nodeId)
    const secretHash = hashOf(pairingSecret)
    const row = await this.#parts.rows.findOne({ id: nodeId })
    if (!matches(secretHash, row?.secretHash ?? null) || !row) {
      await this.#guesses.count(address, nodeId)
      throw unauthenticated('The node is unknown or its pairing secret is wrong')
    }
    if (row.state === 'rejected') return { status: 'rejected' }
    if (row.state === 'approved') return this.#collect(row)
    return this.#isAlive(row) ? { status: 'pending', pairingCode: row.pairingCode } : { status: 'expired' }
  }

  pending(options: PageOptions): Promise<Page<PairingRow>> {
    return this.#parts.rows.page({ state: 'pending', secretUntil: { $gt: this.#at() } }, options)
  }

  /** The approver becomes the owner. Rejects with `not_found` or, once decided, with `conflict`. */
  async approve(caller: Caller, nodeId: string, scopes: string[]): Promise<void> {
    const approval = { tenant: caller.tenant, ownerId: caller.userId, scopes, at: this.#at() }
    const row = await this.#decide(nodeId, { $set: { state: 'approved', approval }, $unset: { expiresAt: '' } })
    await this.#parts.directory.admit(row)
  }

  async reject(nodeId: string): Promise<void> {
    const expiresAt = this.#at(REMEMBERED_MS)
    await this.#decide(nodeId, { $set: { state: 'rejected', expiresAt } })
  }

  /** Forgets the pairing that a node came from. */
  async forget(nodeId: string, key: string): Promise<void> {
    await this.#parts.rows.deleteOne({ id: nodeId, key })
  }

  /** Those that this owner approved, also where the node is not made yet. */
  async forgetAll({ tenant, userId }: Owner): Promise<void> {
    await this.#parts.rows.deleteMany({ 'approval.ownerId': userId, 'approval.tenant': tenant })
  }

  async #decide(nodeId: string, update: Record<`$${string}`, Record<string, unknown>>): Promise<PairingRow> {
    const row = await this.#parts.rows.findOneAndUpdate({ id: nodeId, state: 'pending', secretUntil: { $gt: this.#at() } }, update)
    if (row) return row
    const status = await this.status(nodeId)
    if (status === 'unknown') throw notFound('Pairing request')
    throw conflict(status === 'expired' ? 'The pairing request has expired: the node has to ask again' : `The pairing is ${status} already`)
  }

  async #collect(row: PairingRow): Promise<PairingAnswer> {
    const { directory, publicUrl } = this.#parts
    // After a crash between the approval and its node.
    const node = await directory.admit(row)
    if (node.pairing !== row.key || node.state !== 'approved') throw unauthenticated('The node is unknown or its pairing secret is wrong')
    if (node.tokenHash === null && !this.#isAlive(row)) return { status: 'expired' }
    const secret = newSecret()
    if (!(await directory.firstToken(row, hashOf(secret)))) throw conflict('pairing already complete')
    return { status: 'approved', token: tokenOf(row.id, secret), gatewayUrl: publicUrl() }
  }

  async #checkRoom(address: string): Promise<void> {
    const { rows, maxPending, maxPendingPerAddress } = this.#parts
    const alive = { state: 'pending', secretUntil: { $gt: this.#at() } } as const
    const [all, own] = await Promise.all([rows.count(alive), rows.count({ ...alive, address })])
    if (all >= maxPending() || own >= maxPendingPerAddress()) throw rateLimited(60, 'Too many pairing requests wait to be decided')
  }

  async #place(row: PairingRow, known: PairingRow | null): Promise<boolean> {
    const { id, ...fields } = row
    try {
      if (known) return await this.#parts.rows.updateOne({ id, key: known.key, state: known.state }, { $set: fields })
      await this.#parts.rows.insertOne(row)
      return true
    } catch (error) {
      if (error instanceof DuplicateKey) return false
      throw error
    }
  }

  #newRow(address: string, id: string, profile: NodeProfile, secretHash: string): PairingRow {
    return {
      ...profile,
      id,
      key: newId('par'),
      state: 'pending',
      secretHash,
      pairingCode: newCode(),
      address,
      createdAt: this.#at(),
      secretUntil: this.#at(SECRET_LIFETIME_MS),
      approval: null,
      expiresAt: this.#at(SECRET_LIFETIME_MS + REMEMBERED_MS),
    }
  }

  #isAlive({ secretUntil }: PairingRow): boolean {
    return secretUntil > this.#at()
  }

  #at(offsetMs = 0): string {
    return new Date((this.#parts.now?.() ?? Date.now()) + offsetMs).toISOString()
  }
}

/** For a person to compare: `ABCD-2345`. */
const newCode = (): string => {
  const letters = Array.from({ length: CODE_LENGTH }, () => CODE_ALPHABET[randomInt(CODE_ALPHABET.length)])
  return `${letters.slice(0, 4).join('')}-${letters.slice(4).join('')}`
}
