/** The one catalogue of REST errors: machine code and HTTP status, as in the specification's error table. */
export const catalogue = {
  invalid_request: 400,
  unauthenticated: 401,
  not_authorized: 403,
  not_found: 404,
  conflict: 409,
  payload_too_large: 413,
  validation_failed: 422,
  rate_limited: 429,
  internal_error: 500,
  upstream_unavailable: 502,
  service_unavailable: 503,
} as const

export type ErrorCode = keyof typeof catalogue
export type ErrorDetails = Record<string, unknown>

interface ErrorExtras {
  /** Shown to the caller in `error.details`. */
  details?: ErrorDetails
  /** Logged, never shown. */
  cause?: unknown
  /** Response headers that belong to the error, for example `Retry-After`. */
  headers?: Record<string, string>
  /** Another status with the same code, for example 405 or 415 with `invalid_request`. */
  status?: number
}

/** An error meant for the caller. Anything else that is thrown becomes `internal_error` and is only logged. */
export class GatewayError extends Error {
  readonly code: ErrorCode
  readonly status: number
  readonly details: ErrorDetails
  readonly headers: Record<string, string>

  constructor(code: ErrorCode, message: string, extras: ErrorExtras = {}) {
    super(message, extras.cause === undefined ? undefined : { cause: extras.cause })
    this.name = 'GatewayError'
    this.code = code
    this.status = extras.status ?? catalogue[code]
    this.details = extras.details ?? {}
    this.headers = extras.headers ?? {}
  }
}

export const invalidRequest = (message: string, extras?: ErrorExtras): GatewayError => new GatewayError('invalid_request', message, extras)

export const unauthenticated = (message = 'A valid token is required: log in again or send a current API token'): GatewayError =>
  new GatewayError('unauthenticated', message, { headers: { 'WWW-Authenticate': 'Bearer' } })

export const notAuthorized = (message: string, details?: ErrorDetails): GatewayError =>
  new GatewayError('not_authorized', message, details ? { details } : {})

/** The caller lacks `permission`: 403 with its name in the details. */
export const missingPermission = (permission: string): GatewayError =>
  notAuthorized(`This needs the permission ${permission}`, { permission })

/** The gateway cannot start for a reason outside of it that an operator can mend: the message says which, and is shown alone. */
export class StartError extends Error {
  override readonly name = 'StartError'
}

/** `what` names the kind of resource: `notFound('Agent')`. Also used for what the caller may not see. */
export const notFound = (what: string): GatewayError => new GatewayError('not_found', `${what} not found`)

export const conflict = (message: string, details?: ErrorDetails): GatewayError =>
  new GatewayError('conflict', message, details ? { details } : {})

export const payloadTooLarge = (what: string, maxBytes: number): GatewayError =>
  new GatewayError('payload_too_large', `${what} is larger than the limit of ${String(maxBytes)} bytes`, { details: { maxBytes } })

export interface Issue {
  /** Where in the body, for example `settings.apiKey`. */
  path: string
  message: string
}

/** A well-formed body that breaks its schema or a rule: 422 with every issue named. */
export const validationFailed = (issues: Issue[]): GatewayError =>
  new GatewayError('validation_failed', issues.map(({ path, message }) => (path ? `${path}: ${message}` : message)).join('; '), {
    details: { issues },
  })

export const rateLimited = (retryAfterSeconds: number, message = 'Too many requests'): GatewayError =>
  new GatewayError('rate_limited', `${message}: try again in ${String(retryAfterSeconds)} s`, {
    headers: { 'Retry-After': String(retryAfterSeconds) },
  })

export const upstreamUnavailable = (message: string, cause?: unknown): GatewayError =>
  new GatewayError('upstream_unavailable', message, { cause })

export const serviceUnavailable = (message: string, retryAfterSeconds?: number): GatewayError =>
  new GatewayError('service_unavailable', message, retryAfterSeconds ? { headers: { 'Retry-After': String(retryAfterSeconds) } } : {})

/** A file could not be written for want of room: as the store says it of itself. */
export const diskFull = (cause: unknown): GatewayError =>
  new GatewayError('service_unavailable', "The gateway's disk is full: nothing was stored. Free space there, then try again", { cause })
