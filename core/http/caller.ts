import type { Owner } from '../store/collection.js'

/** Who calls a route, found once per request by an authenticator. */
export interface Caller extends Owner {
  readonly kind: 'user' | 'node' | 'anonymous'
  /** A user's id; a node's owner; empty for anonymous callers. */
  readonly userId: string
  /** The tenant that the request works in; `null`: none. */
  readonly tenant: string | null
  /** Belongs to no tenant and was let into this one as an administrator of the whole gateway. */
  readonly visiting?: boolean
  readonly roles: readonly string[]
  readonly permissions: readonly string[]
  /** What proved it: a session (JWT), an API token, `AutoAdmin`, a node's token, or nothing. */
  readonly credential: { readonly kind: 'session' | 'token' | 'auto' | 'node' | 'none'; readonly id: string }
}

export const anonymous: Caller = {
  kind: 'anonymous',
  userId: '',
  tenant: null,
  roles: [],
  permissions: [],
  credential: { kind: 'none', id: '' },
}

/** The role that has every permission. */
export const ADMIN_ROLE = 'Admin'
export const OPERATOR_ROLE = 'Operator'

/** Whether the caller administers the whole gateway, and not one tenant of it. */
export const isGatewayAdmin = ({ roles, tenant, visiting = false }: Caller): boolean =>
  roles.includes(ADMIN_ROLE) && (tenant === null || visiting)

/**
 * Whether the caller may do what needs `permission`. The Admin role has every one; a token narrowed to a list of
 * permissions does not carry its user's roles, so only the list counts.
 */
export const hasPermission = (caller: Caller, permission: string): boolean =>
  caller.roles.includes(ADMIN_ROLE) || caller.permissions.includes(permission)
