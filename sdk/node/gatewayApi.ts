import type { Heartbeat, ResultMessage } from './protocol.js'

const CALL_LIMIT_MS = 20_000
/** A gateway that asks for more patience is asked again all the same. */
const MAX_RETRY_AFTER_MS = 300_000
/** A poll brings at most 50 commands, each with parameters of up to 1 MiB. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024

/** The gateway answered with an error, or (`status` 0) not at all. */
export class GatewayError extends Error {
  /** The HTTP status; 0: the gateway was not reached. */
  readonly status: number
  /** The gateway's machine code: `unauthenticated`, `conflict`, ... */
  readonly code: string
  readonly retryAfterMs: number | undefined

  constructor(status: number, code: string, message: string, { retryAfterMs, cause }: { retryAfterMs?: number; cause?: unknown } = {}) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'GatewayError'
    this.status = status
    this.code = code
    this.retryAfterMs = retryAfterMs
  }

  /** The token is not valid here; a proxy's own 401 is not taken for it. */
  get isUnauthenticated(): boolean {
    return this.status === 401 && this.code === 'unauthenticated'
  }

  /** Asking again may help. */
  get isTemporary(): boolean {
    return this.status === 0 || this.status === 429 || this.status >= 500
  }
}

type Answer = Record<string, unknown>

/** A gateway's address as it is stored: no query, no `/api`, no slash at the end. Throws for what is no http(s) URL. */
export const normalizeGatewayUrl = (address: string): string => {
  const url = new URL(address)
  if (url.protocol !== 'http:' && url.protocol !== 'https:') throw new TypeError(`${address} is no http or https address`)
  if (url.username !== '' || url.password !== '') throw new TypeError('The address of the gateway may not hold a password')
  return `${url.origin}${url.pathname.replace(/\/+$/, '').replace(/\/api$/, '')}`
}

/** The routes of the gateway that nodes call. Each rejects with a `GatewayError`. */
export class GatewayApi {
  readonly #url: string
  readonly #token: () => string | undefined
  readonly #signal: AbortSignal | undefined

  constructor(gatewayUrl: string, token: () => string | undefined = () => undefined, signal?: AbortSignal) {
    this.#url = `${gatewayUrl}/api`
    this.#token = token
    this.#signal = signal
  }

  /** What the gateway knows of the node: its scopes, and the intervals that it wishes. */
  me(): Promise<Answer> {
    return this.#call('GET', '/nodes/me')
  }

  /** Says that the node is there; answers with the scopes in force. */
  heartbeat(heartbeat: Heartbeat): Promise<Answer> {
    return this.#call('POST', '/nodes/me/heartbeat', heartbeat)
  }

  /** Takes the commands that wait. `resume`: also what was given before and has not ended. */
  commands(resume: boolean): Promise<Answer> {
    return this.#call('GET', `/nodes/me/commands${resume ? '?resume=true' : ''}`)
  }

  /** Says how far a command is; `conflict`: it is over already. */
  progress(commandId: string, progress: { percent?: number; message?: string }): Promise<Answer> {
    return this.#call('POST', `/nodes/me/commands/${encodeURIComponent(commandId)}/progress`, progress)
  }

  /** Posts a result, or a part of one. */
  result({ commandId, ...result }: ResultMessage): Promise<Answer> {
    return this.#call('POST', `/nodes/me/commands/${encodeURIComponent(commandId)}/result`, result)
  }

  /** Reports a crash of the node; `occurredAt` is an ISO 8601 time. */
  crash(crash: { message: string; stack?: string; version: string; platform: string; occurredAt: string }): Promise<Answer> {
    return this.#call('POST', '/nodes/me/crashes', crash)
  }

  /** Asks to be paired; needs no token. */
  requestPairing(request: Record<string, unknown>): Promise<Answer> {
    return this.#call('POST', '/nodes/pairing/request', request)
  }

  /** How the pairing stands, with the token once it is approved; needs no token. */
  pollPairing(nodeId: string, pairingSecret: string): Promise<Answer> {
    return this.#call('POST', '/nodes/me/pair', { nodeId, pairingSecret })
  }

  async #call(method: string, path: string, body?: unknown): Promise<Answer> {
    const token = this.#token()
    const limit = AbortSignal.timeout(CALL_LIMIT_MS)
    let response: Response
    let text: string
    try {
      response = await fetch(this.#url + path, {
        method,
        headers: {
          ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
          ...(body === undefined ? {} : { 'Content-Type': 'application/json' }),
        },
        ...(body === undefined ? {} : { body: JSON.stringify(body) }),
        // A redirection could carry results elsewhere.
        redirect: 'error',
        signal: this.#signal ? AbortSignal.any([limit, this.#signal]) : limit,
      })
      text = await readText(response)
    } catch (error) {
      const { cause } = error as { cause?: { message?: string; code?: string } }
      const why = cause?.code ?? cause?.message ?? (error as Error).message
      throw new GatewayError(0, 'unreachable', `The gateway was not reached at ${this.#url}: ${why}`, { cause: error })
    }
    const answer = parse(text)
    if (response.ok && answer) return answer
    throw toError(response, answer, path)
  }
}

const readText = async (response: Response): Promise<string> => {
  const chunks: Uint8Array[] = []
  let bytes = 0
  for await (const chunk of (response.body ?? []) as AsyncIterable<Uint8Array>) {
    bytes += chunk.length
    if (bytes > MAX_ANSWER_BYTES) throw new Error(`the answer is larger than ${MAX_ANSWER_BYTES} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}

const parse = (text: string): Answer | undefined => {
  try {
    const value = JSON.parse(text) as unknown
    return typeof value === 'object' && value !== null ? (value as Answer) : undefined
  } catch {
    return undefined
  }
}

const toError = ({ ok, status, headers }: Response, answer: Answer | undefined, path: string): GatewayError => {
  if (ok) return new GatewayError(502, 'bad_answer', `The answer to ${path} is no JSON: is this the gateway's address?`)
  const { code, message } = (answer?.error ?? {}) as { code?: unknown; message?: unknown }
  const seconds = Number(headers.get('Retry-After') ?? Number.NaN)
  return new GatewayError(
    status,
    typeof code === 'string' ? code : 'unknown',
    typeof message === 'string' ? message : `The gateway answered ${path} with ${status}`,
    Number.isFinite(seconds) ? { retryAfterMs: Math.min(Math.max(seconds * 1000, 0), MAX_RETRY_AFTER_MS) } : {},
  )
}
