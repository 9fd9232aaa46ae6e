import { Readable } from 'node:stream'
import type { Context } from 'koa'
import type { HeaderList } from './headers.js'
import { RecordReply, Reply, type Route } from './route.js'

const JSON_TYPE = 'application/json; charset=utf-8'
/** Answers below this many bytes are not worth compressing. */
export const COMPRESSION_THRESHOLD = 2048

/** The request that is answered. */
interface Answered {
  id: string
  /** What its path began with: a new record's `Location` begins with it too. */
  base: string
}

/** Writes answers with the headers that every one of them has. */
export class Answers {
  readonly #headers: HeaderList
  readonly #flat: readonly string[]

  constructor(headers: HeaderList) {
    this.#headers = headers
    this.#flat = headers.flat()
  }

  /** The headers of an answer that Koa writes: a stream, a page, or one that may be compressed. */
  prepare(ctx: Context, id: string): void {
    for (const [name, value] of this.#headers) ctx.res.setHeader(name, value)
    ctx.res.setHeader('X-Service-Request-Id', id)
  }

  /**
   * Writes a handler's result. A record passes through the route's schema: what the schema does not name stays here,
   * and a result that breaks it is this gateway's mistake, an unexpected error.
   */
  success(ctx: Context, route: Route, result: unknown, { id, base }: Answered): void {
    if (result instanceof Reply) {
      this.prepare(ctx, id)
      reply(ctx, result)
      return
    }
    if (!route.returns) {
      this.prepare(ctx, id)
      ctx.status = route.status
      ctx.body = null
      return
    }
    if (result instanceof RecordReply) {
      this.json(ctx, result.status, JSON.stringify(route.returns.parse(result.record)), id, result.headers)
      return
    }
    const record = route.returns.parse(result)
    const location = route.location && `${base}${route.location(record as never)}`
    this.json(ctx, route.status, JSON.stringify(record), id, location === undefined ? undefined : { Location: location })
  }

  /**
   * Writes a JSON text. A short one goes out here, in one call with its headers: setting each of them through Koa
   * would cost as much as reading the record did. A longer one is left to Koa, to be compressed.
   */
  json(ctx: Context, status: number, text: string, id: string, headers: Readonly<Record<string, string>> = {}): void {
    const bytes = Buffer.byteLength(text)
    if (bytes >= COMPRESSION_THRESHOLD) {
      this.prepare(ctx, id)
      ctx.status = status
      ctx.set(headers)
      ctx.res.setHeader('Content-Type', JSON_TYPE)
      ctx.body = text
      return
    }
    const lines = [...this.#flat, 'X-Service-Request-Id', id, 'Content-Type', JSON_TYPE, 'Content-Length', String(bytes)]
    for (const name in headers) lines.push(name, headers[name] ?? '')
    ctx.respond = false
    ctx.res.writeHead(status, lines)
    ctx.res.end(ctx.method === 'HEAD' ? undefined : text)
  }
}

const reply = (ctx: Context, { status, headers, body }: Reply): void => {
  // In this order: an empty body makes any status a 204.
  ctx.body = body
  ctx.status = status
  for (const [name, value] of Object.entries(headers)) ctx.set(name, value)
  if (body instanceof Readable && headers['Content-Length'] !== undefined) ctx.length = Number(headers['Content-Length'])
}
