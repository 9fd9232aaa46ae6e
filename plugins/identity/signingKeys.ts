import { randomBytes } from 'node:crypto'
import { conflict } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import type { Collection } from '../../core/store/collection.js'
import { GATEWAY_OWNER, UnreadableSecret, type Vault } from '../vault/contract.js'
import type { SigningKeyRow } from './rows.js'

export interface SigningKey {
  kid: string
  secret: Uint8Array
  longestLifetimeMs: number
}

interface Ring {
  current: SigningKey
  byKid: Map<string, SigningKey>
  loadedAt: number
}

/** Other gateways on the same store learn of a rotation after this long at most. */
const RELOAD_MS = 10 * 60_000
/** A token with an unknown `kid` makes the ring load again, at most this often. */
const RELOAD_FOR_UNKNOWN_MS = 5000
/** Longer than `RELOAD_MS`: another gateway may go on signing with the old key for that long. */
const RETIREMENT_SLACK_MS = 60 * 60_000
/** Keys whose tokens may still be good, the current one with them. */
export const MAX_KEYS = 100

const secretName = (kid: string): string => `identity/signing/${kid}`

/** The keys that sign tokens: in the vault, the newest one signs, retired ones verify until their tokens have expired. */
export class SigningKeys {
  readonly #rows: Collection<SigningKeyRow>
  readonly #vault: Vault
  readonly #log: Log
  #ring: Ring | undefined
  #loading: Promise<Ring> | undefined

  constructor(rows: Collection<SigningKeyRow>, vault: Vault, log: Log) {
    this.#rows = rows
    this.#vault = vault
    this.#log = log
  }

  /** The key to sign a token of this lifetime with. */
  async toSign(lifetimeMs: number): Promise<SigningKey> {
    const { current } = await this.#fresh(RELOAD_MS)
    if (current.longestLifetimeMs < lifetimeMs) {
      await this.#rows.updateOne({ id: current.kid }, { $max: { longestLifetimeMs: lifetimeMs } })
      current.longestLifetimeMs = lifetimeMs
    }
    return current
  }

  /** `undefined`: no token of this key is good any more, or it was never ours. */
  async find(kid: string): Promise<SigningKey | undefined> {
    const ring = await this.#fresh(RELOAD_MS)
    return ring.byKid.get(kid) ?? (await this.#fresh(RELOAD_FOR_UNKNOWN_MS)).byKid.get(kid)
  }

  /** Rejects with `conflict` when so many old keys are still needed that one more would push out the tokens of another. */
  async rotate(): Promise<void> {
    const { byKid } = await this.#load()
    if (byKid.size >= MAX_KEYS)
      throw conflict(
        `The signing key was rotated ${MAX_KEYS - 1} times while tokens of the old ones are still good: wait until they expire`,
      )
    const old = (await this.#rows.find({ retiresAt: { $exists: false } }, { limit: MAX_KEYS })).map(({ id }) => id)
    await this.#create()
    for (const id of old) {
      const row = await this.#rows.findOne({ id })
      if (!row) continue
      const retiresAt = new Date(Date.now() + row.longestLifetimeMs + RETIREMENT_SLACK_MS).toISOString()
      await this.#rows.updateOne({ id, retiresAt: { $exists: false } }, { $set: { retiresAt } })
    }
    await this.#load()
  }

  async #fresh(maxAgeMs: number): Promise<Ring> {
    if (this.#ring && Date.now() - this.#ring.loadedAt < maxAgeMs) return this.#ring
    this.#loading ??= this.#load().finally(() => (this.#loading = undefined))
    return this.#loading
  }

  async #load(): Promise<Ring> {
    const loadedAt = Date.now()
    const byKid = new Map<string, SigningKey>()
    let current: SigningKey | undefined
    // The newest first: beyond the limit only the oldest are left out.
    for (const row of await this.#rows.find({}, { sort: { createdAt: -1, id: -1 }, limit: 2 * MAX_KEYS })) {
      if (row.retiresAt !== undefined && Date.parse(row.retiresAt) < loadedAt) await this.#forget(row.id)
      else {
        const key = await this.#open(row)
        if (!key) continue
        byKid.set(key.kid, key)
        if (row.retiresAt === undefined) current ??= key
      }
    }
    if (!current) {
      current = await this.#create()
      byKid.set(current.kid, current)
    }
    const ring = { current, byKid, loadedAt }
    // A slow load that began before a rotation must not bring the old ring back.
    if (!this.#ring || this.#ring.loadedAt <= loadedAt) this.#ring = ring
    return ring
  }

  /** `undefined`, with word of it in the log: one key that cannot be used must not lock everyone out. */
  async #open({ id, longestLifetimeMs }: SigningKeyRow): Promise<SigningKey | undefined> {
    const known = this.#ring?.byKid.get(id)
    if (known) return { ...known, longestLifetimeMs }
    try {
      const secret = await this.#vault.get(GATEWAY_OWNER, secretName(id))
      if (secret !== null) return { kid: id, secret: Buffer.from(secret, 'base64url'), longestLifetimeMs }
      this.#log.error(`the signing key ${id} is not in the vault: tokens signed with it are refused`)
    } catch (error) {
      if (!(error instanceof UnreadableSecret)) throw error
      this.#log.error(`the signing key ${id} is not readable: tokens signed with it are refused`)
    }
    return undefined
  }

  /** The secret is stored first: a crash in between leaves a secret without use, not a key without secret. */
  async #create(): Promise<SigningKey> {
    const kid = randomBytes(9).toString('base64url')
    const secret = randomBytes(32)
    await this.#vault.put(GATEWAY_OWNER, secretName(kid), secret.toString('base64url'))
    await this.#rows.insertOne({ id: kid, createdAt: new Date().toISOString(), longestLifetimeMs: 0 })
    return { kid, secret, longestLifetimeMs: 0 }
  }

  async #forget(kid: string): Promise<void> {
    await this.#rows.deleteOne({ id: kid })
    await this.#vault.remove(GATEWAY_OWNER, secretName(kid))
  }
}
