import { z } from 'zod'
import { service } from '../../core/plugin.js'
import type { Owner } from '../../core/store/collection.js'

export const User = z
  .object({
    id: z.string(),
    email: z.string(),
    name: z.string(),
    roles: z.array(z.string()),
    permissions: z.array(z.string()),
    tenant: z.string().nullable().meta({ description: 'The slug of the tenant that the user belongs to' }),
  })
  .meta({ id: 'User' })
export type User = z.infer<typeof User>

export interface NewUser {
  email: string
  name: string
  password: string
  roles: string[]
  tenant?: string | null
}

/** Users, as other areas need them. */
export interface Identity {
  /** `null` when there is no such user, or it is disabled. */
  user(id: string): Promise<User | null>
  /**
   * Rejects with `conflict` when the e-mail address is taken, with `validation_failed` for an unknown role or tenant,
   * a malformed e-mail address, or a password that the policy refuses.
   */
  createUser(user: NewUser): Promise<User>
  /** Ends every session of the user, at once; API tokens stay. Returns how many there were. */
  logoutEverywhere(owner: Pick<Owner, 'userId'>): Promise<number>
  /**
   * What an area does with what a removed user had there: it ends it and removes it. Asked after the user and its
   * credentials are gone, more than once and after a crash again, until it resolves; areas that need others are asked
   * before those. Returns the undo.
   */
  onRemoval(area: string, end: (owner: Owner) => Promise<void>): () => void
  /** Signs new tokens with a new key. Those signed with the old one stay good until they expire. */
  rotateSigningKey(): Promise<void>
}

export const identity = service<Identity>('identity')
