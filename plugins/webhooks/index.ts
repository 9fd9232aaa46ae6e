import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { definePlugin } from '../../core/plugin.js'
import { inboundWebhooks, type WebhookTarget } from './contract.js'
import { receiveRoutes } from './routes.js'

const SECRET_BYTES = 24

const digest = (text: string): Buffer => createHash('sha256').update(text).digest()

export default definePlugin({
  id: 'webhooks',
  tags: { webhooks: 'Where platforms deliver to.' },
  provides: inboundWebhooks,
  setup: ({ http, routes }) => {
    const finders = new Map<string, (id: string) => Promise<WebhookTarget | null>>()
    const find = async (slug: string): Promise<WebhookTarget | null> => {
      const id = slug.slice(0, slug.indexOf('.'))
      const target = await finders.get(id.slice(0, id.indexOf('_')))?.(id)
      return target && timingSafeEqual(digest(target.slug), digest(slug)) ? target : null
    }
    routes(receiveRoutes(find))
    return {
      mint: id => `${id}.${randomBytes(SECRET_BYTES).toString('base64url')}`,
      url: slug => `${http.publicUrl()}/api/webhooks/receive/${slug}`,
      register: (prefix, finder) => {
        if (finders.has(prefix)) throw new Error(`Two receivers of webhooks take the prefix "${prefix}"`)
        finders.set(prefix, finder)
        return () => finders.delete(prefix)
      },
    }
  },
})
