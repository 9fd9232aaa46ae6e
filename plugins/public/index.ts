import { z } from 'zod'
import { route } from '../../core/http/route.js'
import { definePlugin } from '../../core/plugin.js'
import { version } from '../../core/version.js'

const Health = z.object({ status: z.literal('ok'), uptimeSeconds: z.number() }).meta({ id: 'Health' })
const Version = z.object({ name: z.string(), version: z.string(), apiDescription: z.string() }).meta({ id: 'Version' })

/** What anyone may ask: is the gateway up, and which one is it. */
export default definePlugin({
  id: 'public',
  tags: { public: 'Health and version, for anyone.' },
  setup: ({ routes }) => {
    routes([
      route({
        method: 'GET',
        path: '/health',
        tag: 'public',
        access: 'public',
        limit: 'none',
        summary: 'Shallow health, for load balancers',
        description: 'Answers as long as the gateway serves requests; asks nothing of the store, plugins or models.',
        returns: Health,
        handle: () => ({ status: 'ok' as const, uptimeSeconds: Math.floor(process.uptime()) }),
      }),
      route({
        method: 'GET',
        path: '/version',
        tag: 'public',
        access: 'public',
        limit: 'read',
        summary: 'Which gateway this is',
        returns: Version,
        handle: () => ({ name: 'agent-gateway', version, apiDescription: '/openapi/v1/openapi.json' }),
      }),
    ])
  },
})
