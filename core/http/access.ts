import { GatewayError, missingPermission, notAuthorized, serviceUnavailable } from '../errors.js'
import { ADMIN_ROLE, anonymous, hasPermission, isGatewayAdmin, OPERATOR_ROLE, type Caller } from './caller.js'
import type { Authenticate, Credentials, ResolveTenant } from './registry.js'
import type { Access } from './route.js'

/** The kind of credential that a route's access asks for; `undefined`: none. */
export const credentialKind = (access: Access): string | undefined => {
  if (access === 'public') return undefined
  return typeof access === 'object' && 'credential' in access ? access.credential : 'user'
}

/** Whether a known caller may use a route of this access; throws `not_authorized` when not. */
export const checkAccess = (access: Access, caller: Caller): void => {
  if (access === 'admin' && !caller.roles.includes(ADMIN_ROLE)) throw notAuthorized('This needs the Admin role', { role: ADMIN_ROLE })
  if (access === 'gatewayAdmin' && !isGatewayAdmin(caller))
    throw notAuthorized('This needs the Admin role of the whole gateway, not of one tenant', { role: ADMIN_ROLE })
  if (access === 'operator' && !caller.roles.includes(ADMIN_ROLE) && !caller.roles.includes(OPERATOR_ROLE))
    throw notAuthorized('This needs the Operator or the Admin role', { role: OPERATOR_ROLE })
  if (typeof access === 'object' && 'permission' in access && !hasPermission(caller, access.permission))
    throw missingPermission(access.permission)
}

/** Who calls, in which tenant, and may they: the first steps of a request. */
export class Gatekeeper {
  readonly authenticators = new Map<string, Authenticate>()
  resolveTenant: ResolveTenant | undefined

  /** The caller of a route of this access, at once where it can be. Throws, or rejects with, `unauthenticated` or `not_authorized`. */
  admit(access: Access, credentials: Credentials, tenantSlug: string | undefined): Caller | Promise<Caller> {
    const kind = credentialKind(access)
    if (kind === undefined) return anonymous
    const authenticate = this.authenticators.get(kind)
    if (!authenticate) throw serviceUnavailable(`Nothing here can check a credential of kind "${kind}"`)
    const known = authenticate(credentials)
    return known instanceof Promise ? known.then(caller => this.#enter(access, caller, tenantSlug)) : this.#enter(access, known, tenantSlug)
  }

  #enter(access: Access, caller: Caller, tenantSlug: string | undefined): Caller | Promise<Caller> {
    const bound = this.#bind(caller, tenantSlug)
    return bound instanceof Promise ? bound.then(admitted => checked(access, admitted)) : checked(access, bound)
  }

  #bind(caller: Caller, slug: string | undefined): Caller | Promise<Caller> {
    if (this.resolveTenant) return this.resolveTenant(caller, slug)
    if (slug === undefined || slug === caller.tenant) return caller
    throw notAuthorized('This tenant is not open to you')
  }
}

const checked = (access: Access, caller: Caller): Caller => {
  checkAccess(access, caller)
  return caller
}

/** Whether an error says that the caller may not: its credentials are bad, or do not suffice. */
export const isRefusal = (error: unknown): boolean =>
  error instanceof GatewayError && (error.code === 'unauthenticated' || error.code === 'not_authorized')

/** Whether an error says that the credentials themselves are bad, which counts against the address. */
export const isBadCredential = (error: unknown): boolean => error instanceof GatewayError && error.code === 'unauthenticated'
