import type { IncomingHttpHeaders } from 'node:http'
import type { Readable } from 'node:stream'
import type { z } from 'zod'
import type { Caller } from './caller.js'

/**
 * Who may call a route. `user`: any logged-in user; `admin`, `operator`: by role; `gatewayAdmin`: an
 * administrator of the whole gateway, not of one tenant; `{ permission }`: by permission;
 * `{ credential }`: a credential of a kind that a plugin registered an authenticator for, for example `node`;
 * `public`: anyone.
 */
export type Access = 'public' | 'user' | 'admin' | 'gatewayAdmin' | 'operator' | { permission: string } | { credential: string }

/**
 * How often: a category of the specification's rate limits. `webhook` and `node` are sized so that a platform's
 * deliveries and a polling node are not refused; `none` is for health checks.
 */
export type LimitCategory = 'read' | 'write' | 'decision' | 'expensive' | 'chat' | 'webhook' | 'node' | 'none'

export type Method = 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'

/** A file received by multipart/form-data, streamed to disk. Removed after the request unless moved away. */
export interface UploadedFile {
  field: string
  /** The client's name for it, without directories. */
  name: string
  mimeType: string
  /** Bytes. */
  size: number
  path: string
}

/** What a handler gets: validated parts, the caller, and what it may need of the transport. */
export interface RouteRequest<P = unknown, Q = unknown, B = unknown> {
  readonly params: P
  readonly query: Q
  readonly body: B
  readonly caller: Caller
  readonly id: string
  readonly method: string
  /** Path and query as they came. */
  readonly url: string
  readonly headers: IncomingHttpHeaders
  readonly address: string
  /** For `body: raw(...)` routes: the exact bytes. */
  readonly rawBody: Buffer
  /** For `upload` routes: the files, in the form's order; at least one of the declared field. */
  readonly files: UploadedFile[]
  /** For `upload` routes: the form's other fields. */
  readonly fields: Record<string, string>
  /** Aborts when the client goes away or the gateway stops. */
  readonly signal: AbortSignal
  /** Aborts when the gateway begins to stop: an answer without an end of its own ends then. */
  readonly draining: AbortSignal
  /** Whether its credentials would be let in once more, as things are now. Rejects when that cannot be told. */
  isStillAdmitted(): Promise<boolean>
}

/** An answer that is not simply a JSON record. */
export class Reply {
  readonly status: number
  readonly headers: Record<string, string>
  readonly body: Buffer | Readable | string | null

  constructor(status: number, body: Buffer | Readable | string | null, headers: Record<string, string> = {}) {
    this.status = status
    this.body = body
    this.headers = headers
  }
}

/** The route's record with another success status than its own: one of its `otherStatuses`. */
export class RecordReply {
  readonly status: number
  readonly record: unknown
  readonly headers: Record<string, string>

  constructor(status: number, record: unknown, headers: Record<string, string> = {}) {
    this.status = status
    this.record = record
    this.headers = headers
  }
}

interface RouteDefinition<P extends z.ZodType, Q extends z.ZodType, B extends z.ZodType, R extends z.ZodType> {
  method: Method
  /** Below `/api`, with `:name` parameters: `/agents/:id`. */
  path: string
  access: Access
  limit: LimitCategory
  /** Counts the limit by this instead of by the caller, for example a webhook's slug. */
  limitKey?: (params: Record<string, string>) => string
  /** One line for the API description. */
  summary: string
  description?: string
  /** Defaults to the path's first segment. */
  tag?: string
  params?: P
  query?: Q
  /** A JSON body's schema. Unknown fields are dropped. */
  body?: B
  /** Bytes that a `body` may have where that is more than the gateway's limit for JSON. */
  jsonLimit?: number
  /** Instead of `body`: any content type, as bytes. */
  raw?: { maxBytes: number }
  /** Instead of `body`: multipart/form-data with at least one file in `field` (any field when absent). */
  upload?: { field?: string; maxBytes?: number }
  /** The record answered. Fields that it does not name never leave the gateway. Absent: 204, or what a `Reply` holds. */
  returns?: R
  /** Success status; default 200, or 204 without `returns`. */
  status?: number
  /** Further success statuses, each with what it says, which a `RecordReply` answers with. */
  otherStatuses?: Record<number, string>
  /** Request headers that the handler understands, each with what it does, for the API description. */
  requestHeaders?: Record<string, string>
  /** For 201: the new record's URL below `/api`, or below the tenant's prefix that the request came with. */
  location?: (result: z.output<R>) => string
  /** Content types of a `Reply`, for the API description. */
  produces?: string[]
  handle(
    request: RouteRequest<z.output<P>, z.output<Q>, z.output<B>>,
  ): z.input<R> | Reply | RecordReply | Promise<z.input<R> | Reply | RecordReply>
}

/** A route as data: the server, the validation and the API description all read it. */
export interface Route {
  readonly method: Method
  readonly path: string
  readonly access: Access
  readonly limit: LimitCategory
  readonly limitKey?: (params: Record<string, string>) => string
  readonly summary: string
  readonly description?: string
  readonly tag: string
  readonly params?: z.ZodType
  readonly query?: z.ZodType
  readonly body?: z.ZodType
  readonly jsonLimit?: number
  readonly raw?: { maxBytes: number }
  readonly upload?: { field?: string; maxBytes?: number }
  readonly returns?: z.ZodType
  readonly status: number
  readonly otherStatuses?: Readonly<Record<number, string>>
  readonly requestHeaders?: Readonly<Record<string, string>>
  readonly location?: (result: never) => string
  readonly produces?: string[]
  handle(request: RouteRequest<never, never, never>): unknown
}

/** Declares a route. `void` results with no `returns` answer 204. */
export const route = <
  P extends z.ZodType = z.ZodType<Record<string, string>>,
  Q extends z.ZodType = z.ZodType<Record<string, unknown>>,
  B extends z.ZodType = z.ZodType<undefined>,
  R extends z.ZodType = z.ZodVoid,
>(
  definition: RouteDefinition<P, Q, B, R>,
): Route => ({
  ...definition,
  status: definition.status ?? (definition.returns || definition.produces ? 200 : 204),
  tag: definition.tag ?? definition.path.split('/')[1] ?? '',
})
