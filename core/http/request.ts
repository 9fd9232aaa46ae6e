import { randomUUID } from 'node:crypto'
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { isRefusal } from './access.js'
import type { Caller } from './caller.js'
import type { RouteRequest, UploadedFile } from './route.js'

const ACCEPTED_ID = /^[A-Za-z0-9._-]{1,64}$/

/** The caller's request id when it is well-formed, else a new one. */
export const requestId = (request: IncomingMessage): string => {
  const sent = request.headers['x-service-request-id']
  return typeof sent === 'string' && ACCEPTED_ID.test(sent) ? sent : randomUUID()
}

/** The peer's address; behind a trusted proxy, the one that the nearest proxy saw. */
export const addressOf = (request: IncomingMessage, trustProxy: boolean): string => {
  const forwarded = trustProxy ? request.headers['x-forwarded-for'] : undefined
  const nearest = (Array.isArray(forwarded) ? forwarded.join(',') : forwarded)?.split(',').at(-1)?.trim()
  const address = nearest ?? request.socket.remoteAddress ?? ''
  return address.startsWith('::ffff:') ? address.slice(7) : address
}

export const bearerOf = (request: IncomingMessage): string | undefined => {
  const header = request.headers.authorization
  return header !== undefined && /^bearer /i.test(header) ? header.slice(7).trim() : undefined
}

/** The parts of a query string; a repeated name keeps its last value. */
export const parseQuery = (search: string): Record<string, string> => {
  if (search === '') return {}
  const query: Record<string, string> = Object.create(null) as Record<string, string>
  for (const [name, value] of new URLSearchParams(search)) query[name] = value
  return query
}

/** The signals of a gateway that stops: it begins to, and it ends what has not finished in time. */
interface Ends {
  draining: AbortSignal
  stopping: AbortSignal
}

/** Made once: it would cost each request a stack trace that says nothing. */
const ENDED = new DOMException('The request has ended', 'AbortError')

const openBySignal = new WeakMap<AbortSignal, Set<AbortController>>()

/** What has to be aborted with a signal: with a listener each, thousands of waiting requests would slow each other down. */
const openUntil = (signal: AbortSignal): Set<AbortController> => {
  const known = openBySignal.get(signal)
  if (known) return known
  const open = new Set<AbortController>()
  openBySignal.set(signal, open)
  signal.addEventListener('abort', () => {
    for (const one of open) one.abort(signal.reason)
  })
  return open
}

interface Parts {
  id: string
  address: string
  caller: Caller
  params: unknown
  query: unknown
  body: unknown
  rawBody: Buffer
  files: UploadedFile[]
  fields: Record<string, string>
  /** Looks at the credentials again; throws, or rejects, as it did for the request. */
  admitAgain: () => unknown
}

/** What a handler works with. The signal is made when it is asked for: most handlers never do. */
export class HandlerRequest implements RouteRequest {
  readonly id: string
  readonly address: string
  readonly caller: Caller
  readonly params: unknown
  readonly query: unknown
  readonly body: unknown
  readonly rawBody: Buffer
  readonly files: UploadedFile[]
  readonly fields: Record<string, string>
  readonly #admitAgain: () => unknown
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #stopping: AbortSignal
  readonly draining: AbortSignal
  #signal: AbortSignal | undefined

  constructor(request: IncomingMessage, response: ServerResponse, { stopping, draining }: Ends, parts: Parts) {
    this.#request = request
    this.#response = response
    this.#stopping = stopping
    this.draining = draining
    this.id = parts.id
    this.address = parts.address
    this.caller = parts.caller
    this.params = parts.params
    this.query = parts.query
    this.body = parts.body
    this.rawBody = parts.rawBody
    this.files = parts.files
    this.fields = parts.fields
    this.#admitAgain = parts.admitAgain
  }

  get method(): string {
    return this.#request.method ?? 'GET'
  }

  get url(): string {
    return this.#request.url ?? '/'
  }

  get headers(): IncomingHttpHeaders {
    return this.#request.headers
  }

  async isStillAdmitted(): Promise<boolean> {
    try {
      await this.#admitAgain()
      return true
    } catch (error) {
      if (isRefusal(error)) return false
      throw error
    }
  }

  get signal(): AbortSignal {
    if (!this.#signal) {
      const end = new AbortController()
      const open = openUntil(this.#stopping)
      open.add(end)
      this.#response.once('close', () => {
        open.delete(end)
        end.abort(ENDED)
      })
      if (this.#stopping.aborted) end.abort(this.#stopping.reason)
      this.#signal = end.signal
    }
    return this.#signal
  }
}
