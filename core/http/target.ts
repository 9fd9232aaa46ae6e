import { invalidRequest } from '../errors.js'

/** Where a request goes: the path below `/api`, and the tenant that a prefix names. */
export interface Target {
  path: string
  /** What stands before it, as it came: `/api`, or with a tenant's prefix. */
  base: string
  tenantSlug: string | undefined
}

const API = '/api'
const TENANTS = '/tenants/'

/** `undefined`: not an address of the API. */
export const apiTarget = (path: string): Target | undefined => {
  if (!path.startsWith(`${API}/`)) return undefined
  if (path.includes('%')) decode(path)
  const rest = path.slice(API.length)
  if (!rest.startsWith(TENANTS)) return { path: rest, base: API, tenantSlug: undefined }
  const end = rest.indexOf('/', TENANTS.length)
  if (end < 0) return { path: rest, base: API, tenantSlug: undefined }
  return { path: rest.slice(end), base: API + rest.slice(0, end), tenantSlug: decode(rest.slice(TENANTS.length, end)) }
}

/** The tenant that header and prefix name together. Throws `invalid_request` when they differ. */
export const tenantOf = (target: Target, header: string | string[] | undefined): string | undefined => {
  const named = Array.isArray(header) ? header[0] : header
  if (!named) return target.tenantSlug
  if (target.tenantSlug !== undefined && target.tenantSlug !== named)
    throw invalidRequest('The header X-Service-Tenant and the /tenants/ prefix of the path name different tenants: send one of them')
  return named
}

const decode = (text: string): string => {
  try {
    return decodeURIComponent(text)
  } catch {
    throw invalidRequest('The path holds a malformed percent-encoding')
  }
}
