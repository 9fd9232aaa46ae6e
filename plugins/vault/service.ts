import { createHash } from 'node:crypto'
import { payloadTooLarge } from '../../core/errors.js'
import { registerSecret } from '../../core/redaction.js'
import type { Owned, Owner, ScopedHandle } from '../../core/store/collection.js'
import { UnreadableSecret, type Vault } from './contract.js'
import type { RootKeys } from './rootKeys.js'
import { seal, unseal, type Sealed } from './seal.js'

export interface SecretRow {
  id: string
  name: string
  /** The root key that wraps it. */
  kid: string
  sealed: Sealed
  createdAt: string
  updatedAt: string
}

/** Re-encrypted between two looks at the store. */
const BATCH = 100
const MAX_SECRET_BYTES = 64 * 1024
/** The character after `/`: the end of the range of names below a prefix. */
const AFTER_SLASH = '0'

/** One document a secret, found by its id. */
const idOf = ({ tenant, userId }: Owner, name: string): string =>
  `sec_${createHash('sha256')
    .update(JSON.stringify([tenant, userId, name]))
    .digest('base64url')}`

/** Refuses, with what to do, when something is stored that none of the keys opens. */
export const checkKeys = async (rows: ScopedHandle<SecretRow>, keys: RootKeys): Promise<void> => {
  const orphan = await rows.everyone.findOne({ kid: { $nin: [...keys.kids] } })
  if (!orphan) return
  const problem = keys.kids.length === 0 ? `${keys.source} is missing` : `${keys.source} lacks the key ${orphan.kid}`
  throw new Error(
    `${problem}, but stored secrets are encrypted with it. Restore it from a backup, or give the keys in Service:Vault:Key (every gateway on one store needs the same)`,
  )
}

export class SecretVault implements Vault {
  readonly #rows: ScopedHandle<SecretRow>
  readonly #keys: RootKeys
  readonly #puts = new Set<Promise<void>>()
  #rotation: Promise<{ reencrypted: number }> | undefined

  constructor(rows: ScopedHandle<SecretRow>, keys: RootKeys) {
    this.#rows = rows
    this.#keys = keys
  }

  async put(owner: Owner, name: string, value: string): Promise<void> {
    if (Buffer.byteLength(value) > MAX_SECRET_BYTES) throw payloadTooLarge(`The secret ${name}`, MAX_SECRET_BYTES)
    registerSecret(value)
    const put = this.#write(owner, name, value)
    this.#puts.add(put)
    try {
      await put
    } finally {
      this.#puts.delete(put)
    }
  }

  async get(owner: Owner, name: string): Promise<string | null> {
    const row = await this.#rows.for(owner).findOne({ id: idOf(owner, name) })
    if (!row) return null
    const value = await this.#open(owner, name, row)
    registerSecret(value)
    return value
  }

  async remove(owner: Owner, name: string): Promise<void> {
    const rows = this.#rows.for(owner)
    if (name.endsWith('/')) await rows.deleteMany({ name: { $gte: name, $lt: name.slice(0, -1) + AFTER_SLASH } })
    else await rows.deleteOne({ id: idOf(owner, name) })
  }

  rotate(): Promise<{ reencrypted: number }> {
    this.#rotation ??= this.#rotate().finally(() => (this.#rotation = undefined))
    return this.#rotation
  }

  async #write(owner: Owner, name: string, value: string): Promise<void> {
    const root = await this.#keys.current()
    const sealed = await seal(root, owner, name, value)
    const now = new Date().toISOString()
    const changes = { $set: { name, kid: root.kid, sealed, updatedAt: now }, $setOnInsert: { createdAt: now } }
    await this.#rows.for(owner).updateOne({ id: idOf(owner, name) }, changes, { upsert: true })
  }

  async #open(owner: Owner, name: string, { kid, sealed }: SecretRow): Promise<string> {
    const root = this.#keys.find(kid)
    if (!root) throw new UnreadableSecret(`The secret ${name} cannot be opened: ${this.#keys.source} lacks the key ${kid}`)
    try {
      return await unseal(root, owner, name, sealed)
    } catch (cause) {
      throw new UnreadableSecret(`The secret ${name} cannot be opened: its ciphertext was changed, or belongs to another record`, { cause })
    }
  }

  async #rotate(): Promise<{ reencrypted: number }> {
    const { kid } = await this.#keys.advance()
    // A write that began with the old key must be in the store before the store is searched for the old key.
    await Promise.allSettled(this.#puts)
    const failed: string[] = []
    let reencrypted = 0
    let last = ''
    for (;;) {
      const rows = await this.#rows.everyone.find({ kid: { $ne: kid }, id: { $gt: last } }, { sort: { id: 1 }, limit: BATCH })
      for (const row of rows) {
        if (await this.#reencrypt(row)) reencrypted += 1
        else failed.push(row.name)
        last = row.id
      }
      if (rows.length < BATCH) break
    }
    if (failed.length > 0)
      throw new Error(
        `${failed.length} secrets cannot be opened and were not re-encrypted: ${failed.slice(0, 10).join(', ')}. The old keys are kept; remove these secrets, or set them again, and repeat`,
      )
    await this.#keys.dropOld()
    return { reencrypted }
  }

  /** Whether nothing is left under the row's old key. A value that was replaced meanwhile already has the new one. */
  async #reencrypt(row: Owned<SecretRow>): Promise<boolean> {
    const root = await this.#keys.current()
    let value: string
    try {
      value = await this.#open(row, row.name, row)
    } catch {
      return false
    }
    const sealed = await seal(root, row, row.name, value)
    await this.#rows.everyone.updateOne({ id: row.id, 'sealed.tag': row.sealed.tag }, { $set: { kid: root.kid, sealed } })
    return true
  }
}
