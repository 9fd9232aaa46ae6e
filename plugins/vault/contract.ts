import { GatewayError } from '../../core/errors.js'
import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

/**
 * Keeps secret values encrypted at rest. A secret is named by its record and field, `channel/chn_1/botToken`; the
 * name is bound into the ciphertext, so a value copied onto another record does not open.
 */
export interface Vault {
  put(owner: Owner, name: string, value: string): Promise<void>
  /** `null` when there is none. Rejects with `UnreadableSecret`. Every value handed out is registered for redaction. */
  get(owner: Owner, name: string): Promise<string | null>
  /** Removes the secret `name`, or with a trailing slash every secret below it. */
  remove(owner: Owner, name: string): Promise<void>
  /** Removes every secret of the owner. */
  removeAll(owner: Owner): Promise<void>
  /**
   * Makes a new key, encrypts everything anew with it, then forgets the old ones. What interrupts it loses nothing, and
   * the next start goes on with it. Rejects with `conflict`, naming them, when secrets cannot be opened: their keys are
   * kept. Keys of the environment are not ours to make: everything moves to the first of them.
   */
  rotate(): Promise<{ reencrypted: number }>
}

/** A stored secret cannot be opened. The message is for the caller: it names the secret, and never holds the value. */
export class UnreadableSecret extends GatewayError {
  constructor(secret: string, why: string, cause?: unknown) {
    super('conflict', `The secret ${secret} cannot be opened: ${why}. Set it again`, { cause })
    this.name = 'UnreadableSecret'
  }
}

/** Whose the gateway's own secrets are, such as its signing keys. No user has this id. */
export const GATEWAY_OWNER: Owner = { tenant: null, userId: 'gateway' }

export const vault = service<Vault>('vault')
