import { createHash } from 'node:crypto'
import { ConfigError } from '../../core/configLayers.js'
import { conflict, payloadTooLarge, serviceUnavailable } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
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
/** Secrets named in a message. */
const MAX_NAMES = 10
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
  throw new ConfigError(
    `${problem}, but stored secrets are encrypted with it. Restore it from a backup, or give the keys in Service:Vault:Key (every gateway on one store needs the same)`,
  )
}

export class SecretVault implements Vault {
  readonly #rows: ScopedHandle<SecretRow>
  readonly #keys: RootKeys
  readonly #log: Pick<Log, 'error'>
  readonly #puts = new Set<Promise<void>>()
  #rotation: Promise<{ reencrypted: number }> | undefined
  #moving: Promise<number> | undefined
  #stopped = false

  constructor(rows: ScopedHandle<SecretRow>, keys: RootKeys, log: Pick<Log, 'error'>) {
    this.#rows = rows
    this.#keys = keys
    this.#log = log
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
    const find = (): Promise<SecretRow | null> => this.#rows.for(owner).findOne({ id: idOf(owner, name) })
    let row = await find()
    // A rotation may have ended, and forgotten the row's key, since the row was read.
    if (row && !this.#keys.find(row.kid)) row = await find()
    if (!row) return null
    try {
      const value = await this.#open(owner, name, row)
      registerSecret(value)
      return value
    } catch (error) {
      // The caller is told, but only the operator can find out who changed the store.
      this.#log.error({ err: error }, `the secret ${name} of ${owner.userId} cannot be opened`)
      throw error
    }
  }

  async remove(owner: Owner, name: string): Promise<void> {
    const rows = this.#rows.for(owner)
    if (name.endsWith('/')) await rows.deleteMany({ name: { $gte: name, $lt: name.slice(0, -1) + AFTER_SLASH } })
    else await rows.deleteOne({ id: idOf(owner, name) })
  }

  async removeAll(owner: Owner): Promise<void> {
    await this.#rows.for(owner).deleteMany({})
  }

  rotate(): Promise<{ reencrypted: number }> {
    this.#rotation ??= this.#rotate().finally(() => (this.#rotation = undefined))
    return this.#rotation
  }

  /**
   * Finishes a rotation that was interrupted, or begun by putting a new key before the one in the environment: with
   * several keys, everything moves to the current one. Resolves with how many secrets did; `null`: nothing to do,
   * or stopped before the end.
   */
  async resume(): Promise<number | null> {
    if (this.#keys.kids.length < 2) return null
    this.#moving = this.#moveAll()
    try {
      return await this.#moving
    } catch (error) {
      if (this.#stopped) return null
      throw error
    }
  }

  /** Leaves a rotation where it is, for the next start to finish; resolves when nothing is being written. */
  async stop(): Promise<void> {
    this.#stopped = true
    await Promise.allSettled([...this.#puts, this.#rotation, this.#moving])
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
    if (!root) throw new UnreadableSecret(name, `${this.#keys.source} lacks the key ${kid}`)
    try {
      return await unseal(root, owner, name, sealed)
    } catch (cause) {
      throw new UnreadableSecret(name, 'its ciphertext was changed, or belongs to another record', cause)
    }
  }

  async #rotate(): Promise<{ reencrypted: number }> {
    await this.#moving?.catch(() => undefined)
    await this.#keys.advance()
    this.#moving = this.#moveAll()
    return { reencrypted: await this.#moving }
  }

  /** Encrypts everything with the current key and forgets the others; resolves with how many secrets that were. */
  async #moveAll(): Promise<number> {
    const { kid } = await this.#keys.current()
    // A write that began with the old key must be in the store before the store is searched for the old key.
    await Promise.allSettled(this.#puts)
    const failed: { names: string[]; count: number; kids: Set<string> } = { names: [], count: 0, kids: new Set() }
    let moved = 0
    let last = ''
    for (;;) {
      const rows = await this.#rows.everyone.find({ kid: { $ne: kid }, id: { $gt: last } }, { sort: { id: 1 }, limit: BATCH })
      for (const row of rows) {
        if (this.#stopped) throw serviceUnavailable('The gateway stops: its next start goes on with the rotation')
        if (await this.#reencrypt(row)) moved += 1
        else {
          failed.count += 1
          failed.kids.add(row.kid)
          if (failed.names.length < MAX_NAMES) failed.names.push(row.name)
        }
        last = row.id
      }
      if (rows.length < BATCH) break
    }
    // The keys of what could not be opened stay: it may be put right.
    await this.#keys.keepOnly(failed.kids)
    if (failed.count > 0)
      throw conflict(
        `${failed.count} secrets cannot be opened and were not encrypted anew: ${failed.names.join(', ')}. Their keys are kept; remove these secrets, or set them again, and repeat`,
      )
    return moved
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
    await this.#rows.everyone.updateOne({ id: row.id, kid: row.kid, 'sealed.tag': row.sealed.tag }, { $set: { kid: root.kid, sealed } })
    return true
  }
}
