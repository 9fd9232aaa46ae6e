import { Readable } from 'node:stream'
import type { Context } from 'koa'
import { Reply, type Route } from './route.js'

const JSON_TYPE = 'application/json; charset=utf-8'

/**
 * Writes a handler's result. A record passes through the route's schema: what the schema does not name stays here,
 * and a result that breaks it is this gateway's mistake, an unexpected error.
 */
export const answer = (ctx: Context, route: Route, result: unknown): void => {
  if (result instanceof Reply) {
    reply(ctx, result)
    return
  }
  if (!route.returns) {
    ctx.status = route.status
    ctx.body = null
    return
  }
  const record = route.returns.parse(result)
  ctx.status = route.status
  if (route.location) ctx.set('Location', `/api${route.location(record as never)}`)
  ctx.res.setHeader('Content-Type', JSON_TYPE)
  ctx.body = JSON.stringify(record)
}

const reply = (ctx: Context, { status, headers, body }: Reply): void => {
  // In this order: an empty body makes any status a 204.
  ctx.body = body
  ctx.status = status
  for (const [name, value] of Object.entries(headers)) ctx.set(name, value)
  if (body instanceof Readable && headers['Content-Length'] !== undefined) ctx.length = Number(headers['Content-Length'])
}
