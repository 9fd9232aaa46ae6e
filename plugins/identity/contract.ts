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
    tenant: z.string().nullable(),
  })
  .meta({ id: 'User' })
export type User = z.infer<typeof User>

/** Users, as other areas need them. */
export interface Identity {
  /** `null` when there is no such user, or it is disabled. */
  user(id: string): Promise<User | null>
  /** Rejects with `conflict` when the e-mail address is taken. */
  createUser(user: { email: string; name: string; password: string; roles: string[]; tenant?: string | null }): Promise<User>
  /** Ends every session of the user, at once. */
  logoutEverywhere(owner: Pick<Owner, 'userId'>): Promise<number>
}

export const identity = service<Identity>('identity')
