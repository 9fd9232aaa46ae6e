import type { IncomingHttpHeaders, IncomingMessage } from 'node:http'
import type { Caller } from './caller.js'
import type { Endpoint } from './endpoints.js'

/** What an authenticator sees of a request. */
export interface Credentials {
  readonly headers: IncomingHttpHeaders
  /** The bearer token, when one was sent. */
  readonly bearer: string | undefined
  readonly address: string
}

/**
 * Finds the caller behind the credentials, or throws `unauthenticated`. Returns a plain value where it can:
 * a promise costs every request a turn.
 */
export type Authenticate = (credentials: Credentials) => Caller | Promise<Caller>

/**
 * Binds the caller to the tenant that the request names (header or path prefix, `undefined` for none), or throws
 * `not_authorized` without telling a foreign tenant from an unknown one.
 */
export type ResolveTenant = (caller: Caller, slug: string | undefined) => Caller | Promise<Caller>

/** Refuses a request before anything else happens, by throwing; used by drain mode. */
export type Gate = (path: string) => void

/** The open sets of the HTTP room. Each registration is undone when its plugin stops. */
export interface HttpRegistry {
  /** For routes of access `user`, `admin`, `operator`, `{ permission }` (kind `user`) or `{ credential: kind }`. One a kind. */
  authenticator(kind: string, authenticate: Authenticate): void
  tenants(resolve: ResolveTenant): void
  gate(gate: Gate): void
  /** Takes over the requests and upgrades at a path outside `/api` and below it, for example `/hubs/node`. In `setup` only. */
  attach(path: string, endpoint: Endpoint): void
  /** Where a request of an endpoint comes from; behind a trusted proxy, what the nearest proxy saw. */
  addressOf(request: IncomingMessage): string
  /** `http://host:port` once listening; `Service:PublicUrl` when set. */
  publicUrl(): string
}
