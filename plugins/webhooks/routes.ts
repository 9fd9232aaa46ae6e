import { createHash } from 'node:crypto'
import { z } from 'zod'
import { notFound } from '../../core/errors.js'
import { route, type Reply, type Route, type RouteRequest } from '../../core/http/route.js'
import { toReply } from './answer.js'
import type { InboundWebhook, WebhookTarget } from './contract.js'
import { Guesses } from './guesses.js'
import { requestHeaders } from './request.js'

/** Larger deliveries are 413. Platforms send far less; files go by link. */
export const MAX_WEBHOOK_BYTES = 1024 * 1024

const params = z.object({ slug: z.string().min(1).max(200) })
const description =
  'What the slug names decides the status, the headers and the body of the answer. 202 `{status: "kept"}`: the request is on disk and is handled later. ' +
  'A slug that names nothing, or something disabled, is 404, and 429 after too many of them. 503 with `Retry-After`: nothing was kept, ' +
  'send it again later. The same delivery twice makes one message.'

/** Deliveries count by slug, so that one busy webhook leaves the others alone; hashed, as the slug is a secret. */
const limitKey = ({ slug = '' }: Record<string, string>): string => createHash('sha256').update(slug).digest('base64url').slice(0, 22)

/** `GET` and `POST /webhooks/receive/:slug`: anyone who knows the slug may call it, and only they. */
export const receiveRoutes = (find: (slug: string) => Promise<WebhookTarget | null>): Route[] => {
  const guesses = new Guesses()
  const handle = async (request: RouteRequest<{ slug: string }>): Promise<Reply> => {
    const target = await find(request.params.slug)
    if (!target) {
      guesses.count(request.address)
      throw notFound('Webhook')
    }
    return toReply(await target.receive(toWebhook(request)))
  }
  const shared = { path: '/webhooks/receive/:slug', access: 'public', limit: 'webhook', limitKey, params, description } as const
  const produces = ['*/*']
  return [
    route({ ...shared, method: 'POST', summary: 'Receive a webhook', raw: { maxBytes: MAX_WEBHOOK_BYTES }, produces, handle }),
    route({
      ...shared,
      method: 'GET',
      summary: 'Answer a platform that verifies a webhook URL; HEAD is answered alike, without the body',
      produces,
      handle,
    }),
  ]
}

const toWebhook = ({ method, query, headers, rawBody }: RouteRequest): InboundWebhook => ({
  // HEAD is answered as GET; the body stays here.
  method: method === 'POST' ? 'POST' : 'GET',
  query: query as Record<string, string>,
  headers: requestHeaders(headers),
  body: rawBody,
  receivedAt: new Date().toISOString(),
})
