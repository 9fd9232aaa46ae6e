import { createServer, type RequestListener, type Server } from 'node:http'
import { rm } from 'node:fs/promises'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import Koa, { type Context } from 'koa'
import compress from 'koa-compress'
import type { Config, SettingValues } from '../config.js'
import { GatewayError } from '../errors.js'
import type { Log } from '../log.js'
import type { coreSettings } from '../settings.js'
import { credentialKind, Gatekeeper, isBadCredential } from './access.js'
import { Answers, COMPRESSION_THRESHOLD } from './answer.js'
import { boundRest, readBody, readJson } from './body.js'
import { anonymous, type Caller } from './caller.js'
import { Endpoints } from './endpoints.js'
import { describeFailure } from './failure.js'
import { securityHeaders } from './headers.js'
import { limitKeyOf, RateLimits, type CreateLimiter } from './limits.js'
import type { Credentials, Gate, HttpRegistry } from './registry.js'
import { addressOf, bearerOf, HandlerRequest, parseQuery, requestId } from './request.js'
import type { Route } from './route.js'
import { Router, type Match } from './router.js'
import { apiTarget, tenantOf, type Target } from './target.js'
import { readUpload, type Upload } from './upload.js'
import { validateBody, validateParameters } from './validate.js'
import { serveDescription } from './viewer.js'

const NO_BYTES = Buffer.alloc(0)
const NO_VALUES = {}
const NO_CONTENT = { rawBody: NO_BYTES, json: undefined }
/** The longest that a request may take to arrive. */
const MAX_REQUEST_MS = 3_600_000
/**
 * Connections that may wait to be accepted; the system has a limit of its own (net.core.somaxconn). Thousands of nodes come
 * back at once, and one that finds no place tries again after a second, then two, four and so on.
 */
const BACKLOG = 65_535
const DESCRIPTION_PATH = '/openapi'

/** What is known of a request when its handler's view of it is made. */
interface Known {
  id: string
  address: string
  target: Target
  caller: Caller
  upload: Upload | undefined
  rawBody: Buffer
  json: unknown
}

const nothing = (): Promise<void> => Promise.resolve()

const nothingAt = (path: string): GatewayError =>
  new GatewayError('not_found', `There is nothing at ${path.slice(0, 200)}: the API is below /api, its description at /openapi`)

/** Streams too: their length is often not known. Not live events, which compressing would hold back. */
const isWorthCompressing = ({ body, type }: Context): boolean =>
  typeof body === 'string' ? body.length >= COMPRESSION_THRESHOLD : body !== null && body !== undefined && type !== 'text/event-stream'

/** The HTTP room: from the socket to a handler and back. The walk of a request is `#handle`, each step one function. */
export class HttpServer {
  readonly #log: Log
  readonly #settings: SettingValues<typeof coreSettings>
  readonly #router = new Router()
  readonly #gatekeeper = new Gatekeeper()
  readonly #limits: RateLimits
  readonly #gates = new Set<Gate>()
  readonly #endpoints = new Endpoints()
  readonly #tags = new Map<string, string>()
  readonly #draining = new AbortController()
  readonly #stopping = new AbortController()
  readonly #ends = { draining: this.#draining.signal, stopping: this.#stopping.signal }
  readonly #trustProxy: boolean
  readonly #answers: Answers
  #server: Server | undefined
  #url = ''

  constructor(config: Config, settings: SettingValues<typeof coreSettings>, log: Log) {
    this.#log = log
    this.#settings = settings
    this.#trustProxy = settings.trustProxy.get()
    this.#limits = new RateLimits(config)
    this.#answers = new Answers(securityHeaders({ https: settings.publicUrl.get().startsWith('https:') }))
  }

  /** Adds a route; throws when its access needs more than a name. Returns the undo. */
  add(route: Route): () => void {
    if ((route.access as unknown) === undefined || (route.limit as unknown) === undefined)
      throw new Error(`The route ${route.method} ${route.path} does not declare who may call it (access) and how often (limit)`)
    return this.#router.add(route)
  }

  /** What tags are about, for the API description, which shows them in this order. */
  describeTags(tags: Readonly<Record<string, string>>): void {
    for (const [name, text] of Object.entries(tags)) this.#tags.set(name, text)
  }

  /** Calls are counted by what this creates from now on. */
  countTogether(create: CreateLimiter): void {
    this.#limits.countWith(create)
  }

  get routes(): Route[] {
    return this.#router.routes
  }

  /** The registry handed to one plugin: what it registers is undone through `undo`. */
  registry(undo: (step: () => void) => void): HttpRegistry {
    const { authenticators } = this.#gatekeeper
    return {
      authenticator: (kind, authenticate) => {
        if (authenticators.has(kind)) throw new Error(`Two plugins register an authenticator of kind "${kind}"`)
        authenticators.set(kind, authenticate)
        undo(() => authenticators.delete(kind))
      },
      tenants: resolve => {
        this.#gatekeeper.resolveTenant = resolve
        undo(() => (this.#gatekeeper.resolveTenant = undefined))
      },
      gate: gate => {
        this.#gates.add(gate)
        undo(() => this.#gates.delete(gate))
      },
      attach: (path, endpoint) => {
        undo(this.#endpoints.add(path, endpoint))
      },
      addressOf: request => addressOf(request, this.#trustProxy),
      publicUrl: () => this.#settings.publicUrl.get().replace(/\/+$/, '') || this.#url,
    }
  }

  /** Refuses to start with a route whose credential nothing can check. */
  checkAccess(): void {
    for (const { method, path, access } of this.#router.routes) {
      const kind = credentialKind(access)
      if (kind !== undefined && !this.#gatekeeper.authenticators.has(kind))
        throw new Error(`The route ${method} ${path} needs a credential of kind "${kind}", but no plugin registers an authenticator for it`)
    }
  }

  /** Listens; resolves with the URL once requests are answered. */
  async listen(): Promise<string> {
    // What uploads of an earlier run left behind, if it was killed.
    await rm(this.#uploadDir, { recursive: true, force: true })
    // Node's own end of a request is for what nothing else ends: bodies have theirs, and a large one may come slowly.
    const server = createServer({ requestTimeout: MAX_REQUEST_MS }, await this.#createListener())
    if (!this.#endpoints.isEmpty)
      server.on('upgrade', (request, socket, head) => {
        this.#endpoints.upgrade(server, request, socket, head)
      })
    this.#server = server
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen({ port: this.#settings.port.get(), host: this.#settings.host.get(), backlog: BACKLOG }, () => {
        server.off('error', reject)
        resolve()
      })
    })
    const { port } = server.address() as AddressInfo
    const host = this.#settings.host.get()
    this.#url = `http://${host.includes(':') ? `[${host}]` : host}:${port}`
    return this.#url
  }

  /** The listening server. */
  get server(): Server {
    if (!this.#server) throw new Error('The gateway does not listen yet')
    return this.#server
  }

  /** Stops accepting, lets what runs finish within the drain time, then cuts what is left. */
  async close(): Promise<void> {
    const server = this.#server
    this.#limits.close()
    if (!server) return
    const closed = new Promise(resolve => server.close(resolve))
    this.#draining.abort()
    server.closeIdleConnections()
    const cut = setTimeout(() => {
      this.#stopping.abort()
      server.closeAllConnections()
      this.#endpoints.cut()
    }, this.#settings.drainSeconds.get() * 1000)
    await this.#endpoints.close()
    await closed
    clearTimeout(cut)
    this.#stopping.abort()
  }

  /** Endpoints see their requests as they came; everything else goes through Koa. */
  async #createListener(): Promise<RequestListener> {
    const handle = await this.#createKoa()
    if (this.#endpoints.isEmpty) return handle
    return (request, response) => {
      const endpoint = request.url?.startsWith('/api/') ? undefined : this.#endpoints.find(request.url)
      if (endpoint) endpoint.request(request, response)
      else handle(request, response)
    }
  }

  async #createKoa(): Promise<RequestListener> {
    const koa = new Koa()
    koa.on('error', (error: NodeJS.ErrnoException) => {
      this.#log.debug({ err: error }, 'a connection ended before its answer was complete')
    })
    await this.#useCors(koa)
    const describe = serveDescription(() => this.#router.routes, this.#tags)
    const compressAnswer = this.#settings.compression.get() ? compress({ threshold: COMPRESSION_THRESHOLD }) : undefined
    // One function rather than a chain: each link would cost every request a turn or two.
    koa.use(async ctx => {
      const id = requestId(ctx.req)
      if (ctx.path.startsWith(DESCRIPTION_PATH)) {
        this.#answers.prepare(ctx, id)
        if (!(await describe(ctx))) await this.#handle(ctx, id)
      } else await this.#handle(ctx, id)
      boundRest(ctx.req, this.#silenceMs)
      if (compressAnswer && ctx.respond !== false && isWorthCompressing(ctx)) await compressAnswer(ctx, nothing)
    })
    const handle = koa.callback()
    return (request, response) => void handle(request, response)
  }

  async #useCors(koa: Koa): Promise<void> {
    const allowed = this.#settings.corsOrigins.get()
    if (allowed.length === 0) return
    const { default: cors } = await import('@koa/cors')
    const origin = (ctx: Context): string => {
      const sent = ctx.get('Origin')
      return allowed.includes('*') || allowed.includes(sent) ? sent : ''
    }
    koa.use(cors({ origin, exposeHeaders: ['X-Service-Request-Id', 'Retry-After', 'Location'], maxAge: 600, keepHeadersOnError: true }))
  }

  /**
   * One request of the API, step by step. A step that has its result at once is not waited for: a turn of the loop
   * costs a tenth of a request.
   */
  async #handle(ctx: Context, id: string): Promise<void> {
    const address = addressOf(ctx.req, this.#trustProxy)
    let upload: Upload | undefined
    try {
      const target = apiTarget(ctx.path)
      if (!target) throw nothingAt(ctx.path)
      for (const gate of this.#gates) gate(target.path)
      const match = this.#router.find(ctx.method, target.path)
      const { route } = match
      const admitted = this.#admit(route, ctx, address, target)
      const caller = admitted instanceof Promise ? await admitted : admitted
      const spent = this.#limits.spend(route.limit, route.limitKey?.(match.params) ?? limitKeyOf(caller, address))
      if (spent) await spent
      if (route.upload) upload = await this.#upload(route.upload, ctx)
      const content = route.body || route.raw ? await this.#read(route, ctx) : NO_CONTENT
      const result = route.handle(this.#validate(match, ctx, { id, address, target, caller, upload, ...content }) as never)
      this.#answers.success(ctx, route, result instanceof Promise ? await result : result, { id, base: target.base })
    } catch (error) {
      await this.#fail(ctx, error, id, address)
    }
    if (upload) await upload.remove()
  }

  #admit(route: Route, ctx: Context, address: string, target: Target): Caller | Promise<Caller> {
    if (route.access === 'public') return anonymous
    const credentials: Credentials = { headers: ctx.req.headers, bearer: bearerOf(ctx.req), address }
    return this.#gatekeeper.admit(route.access, credentials, tenantOf(target, ctx.req.headers['x-service-tenant']))
  }

  #upload({ field, maxBytes = this.#settings.uploadLimit.get() }: NonNullable<Route['upload']>, ctx: Context): Promise<Upload> {
    return readUpload(ctx.req, { field, maxBytes, silenceMs: this.#silenceMs, directory: this.#uploadDir })
  }

  async #read(route: Route, ctx: Context): Promise<{ rawBody: Buffer; json: unknown }> {
    const silenceMs = this.#silenceMs
    if (route.raw) return { rawBody: await readBody(ctx.req, { maxBytes: route.raw.maxBytes, silenceMs }), json: undefined }
    const maxBytes = Math.max(route.jsonLimit ?? 0, this.#settings.jsonLimit.get())
    return { rawBody: NO_BYTES, json: await readJson(ctx.req, { maxBytes, silenceMs }) }
  }

  get #silenceMs(): number {
    return this.#settings.receiveTimeoutSeconds.get() * 1000
  }

  get #uploadDir(): string {
    return join(this.#settings.dataDir.get(), 'tmp', 'uploads')
  }

  #validate({ route, params }: Match, ctx: Context, known: Known): HandlerRequest {
    const { id, address, target, caller, upload, rawBody, json } = known
    return new HandlerRequest(ctx.req, ctx.res, this.#ends, {
      id,
      address,
      caller,
      params: validateParameters(route.params, params),
      query: validateParameters(route.query, parseQuery(ctx.querystring)),
      body: route.body ? validateBody(route.body, json) : undefined,
      rawBody,
      files: upload?.files ?? [],
      fields: upload?.fields ?? NO_VALUES,
      admitAgain: () => this.#admit(route, ctx, address, target),
    })
  }

  async #fail(ctx: Context, error: unknown, id: string, address: string): Promise<void> {
    if (ctx.res.headersSent || (ctx.req.destroyed && !ctx.req.complete)) {
      this.#log.debug({ err: error, requestId: id }, 'the client went away before the answer')
      ctx.respond = false
      ctx.res.destroy()
      return
    }
    const { status, body, headers } = describeFailure(await this.#counted(error, address), id, this.#log)
    this.#answers.json(ctx, status, body, id, headers)
  }

  /** Bad credentials count against their address: the error is then `rate_limited` when there were too many. */
  async #counted(error: unknown, address: string): Promise<unknown> {
    if (!isBadCredential(error)) return error
    try {
      await this.#limits.spend('read', `bad:${limitKeyOf(anonymous, address)}`)
      return error
    } catch (refusal) {
      return refusal
    }
  }
}
