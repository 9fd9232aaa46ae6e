import type { IncomingHttpHeaders } from 'node:http'
import { ConfigError } from '../../core/configLayers.js'
import { unauthenticated } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { isLoopback } from './loopback.js'
import { permissionsOf } from './roles.js'
import type { UserRow } from './rows.js'
import type { Users } from './users.js'

/** Throws when the gateway could be reached from other machines. */
export const checkAutoAdminHost = (host: string): void => {
  if (isLoopback(host)) return
  throw new ConfigError(
    `Service:Auth:AutoAdmin makes every caller the administrator, so it is refused unless the gateway listens on loopback only. ` +
      `Set Service:Host to 127.0.0.1 (it is ${host}), or turn AutoAdmin off`,
  )
}

/** What proxies add of themselves; those of others begin with `x-forwarded-`. */
const PROXY_HEADERS = ['forwarded', 'via', 'x-real-ip']

const isForwarded = (headers: IncomingHttpHeaders): boolean =>
  Object.keys(headers).some(name => PROXY_HEADERS.includes(name) || name.startsWith('x-forwarded-'))

const hostnameOf = (authority: string): string => authority.replace(/:\d+$/, '')

/**
 * Why a request without credentials is not the administrator's, or `undefined`. A page of another site can make the
 * browser of this machine send requests here: by a name that it points at loopback, which the host gives away, or
 * across sites, which the browser tells. A proxy on this machine speaks for others.
 */
export const autoAdminRefusal = (headers: IncomingHttpHeaders, allowedOrigins: readonly string[]): string | undefined => {
  const { host = '', origin, authorization } = headers
  if (authorization !== undefined) return 'the Authorization header holds no bearer token'
  if (!isLoopback(hostnameOf(host))) return 'the Host header does not name this machine'
  if (isForwarded(headers)) return 'it was forwarded by a proxy'
  if (origin !== undefined && allowedOrigins.includes(origin)) return undefined
  if (origin !== undefined && origin !== `http://${host}`) return 'it comes from a page of another origin'
  const site = headers['sec-fetch-site']
  return site === undefined || site === 'same-origin' || site === 'none' ? undefined : 'it comes from a page of another site'
}

/** Answers for requests without credentials while `AutoAdmin` is on. */
export class AutoAdmin {
  readonly #users: Users
  readonly #allowedOrigins: readonly string[]
  #id: string | undefined

  constructor(users: Users, allowedOrigins: readonly string[]) {
    this.#users = users
    this.#allowedOrigins = allowedOrigins
  }

  async caller(headers: IncomingHttpHeaders): Promise<Caller> {
    const refusal = autoAdminRefusal(headers, this.#allowedOrigins)
    if (refusal) throw unauthenticated(`AutoAdmin does not apply to this request: ${refusal}. Send a token`)
    const { id, roles } = await this.#administrator()
    return { kind: 'user', userId: id, tenant: null, roles, permissions: permissionsOf(roles), credential: { kind: 'auto', id } }
  }

  async #administrator(): Promise<UserRow> {
    const known = this.#id === undefined ? null : await this.#users.byId(this.#id)
    const user = known?.gatewayAdmin ? known : await this.#users.administrator()
    if (!user) throw unauthenticated('There is no enabled administrator')
    this.#id = user.id
    return user
  }
}
