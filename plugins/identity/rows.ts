/** The user as its sessions and API tokens carry it, so that a request reads one document. */
export interface Snapshot {
  /** The user's version; a snapshot is only ever replaced by a newer one. */
  version: number
  roles: string[]
  tenant: string | null
  disabled: boolean
}

export interface UserRow {
  id: string
  /** Normalised; unique. */
  email: string
  name: string
  passwordHash: string
  roles: string[]
  /** The slug of the user's tenant. Never changes: what the user owns is kept under it. */
  tenant: string | null
  disabled: boolean
  /** Counts changes of what a snapshot holds. */
  version: number
  /** Present on enabled administrators of the whole gateway. */
  gatewayAdmin?: true
  /** Present until a change has reached the user's sessions and tokens; finished at the next start after a crash. */
  spreading?: 'snapshot' | 'logout'
  /** Networks that this user has logged in from, newest last. */
  knownNetworks: string[]
  createdAt: string
  updatedAt: string
}

export interface SessionRow {
  id: string
  userId: string
  /** The one token of this session that is good. */
  tokenId: string
  user: Snapshot
  address: string
  userAgent: string
  createdAt: string
  /** At most a minute late. */
  lastUsedAt: string
  /** The end of its lifetime, used or not. */
  endsAt: string
  /** When the sweep may remove it. */
  expiresAt: string
}

export interface ApiTokenRow {
  id: string
  userId: string
  name: string
  /** SHA-256 of the secret part. */
  hash: string
  /** `null`: everything that the user may do. */
  permissions: string[] | null
  user: Snapshot
  createdAt: string
  lastUsedAt: string | null
  expiresAt?: string
}

/** A user that was removed, while what it had is being ended. Its id is the user's. */
export interface RemovalRow {
  id: string
  tenant: string | null
  /** When it is looked at next. */
  dueAt: string
  /** Every area was asked once. */
  ended: boolean
  createdAt: string
}

export interface TenantRow {
  id: string
  slug: string
  name: string
  createdAt: string
}

export interface SigningKeyRow {
  /** The key's `kid`. */
  id: string
  createdAt: string
  /** The longest lifetime, in milliseconds, of a token signed with it. */
  longestLifetimeMs: number
  /** Set by a rotation: no token signed with it is good after this. */
  retiresAt?: string
}

/** The one document that says who administers the gateway, so that the last one cannot leave. */
export interface GuardRow {
  id: 'administrators'
  userIds: string[]
}
