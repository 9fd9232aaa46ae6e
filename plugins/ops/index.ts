import { z } from 'zod'
import { Reply, route } from '../../core/http/route.js'
import { definePlugin } from '../../core/plugin.js'
import { metrics, type Metric } from './contract.js'
import { Exposition } from './exposition.js'

const Health = z
  .object({
    status: z.enum(['ok', 'degraded']).describe('degraded: the gateway serves, but something that it needs is away'),
    uptimeSeconds: z.number(),
    cluster: z
      .object({
        mode: z.enum(['single', 'cluster']),
        isReachable: z.boolean().describe('Whether this gateway hears of the others now'),
        gateways: z.number().describe('That are alive, this one included'),
        since: z.string().optional().describe('Since when it does not hear of them'),
        ignored: z.number().describe('Messages of other gateways that were not understood or not proven'),
      })
      .meta({ id: 'ClusterHealth' }),
  })
  .meta({ id: 'DeepHealth' })

/** What an operator watches the gateway with. */
export default definePlugin({
  id: 'ops',
  tags: { ops: 'Running the gateway.' },
  provides: metrics,
  setup: ({ routes, cluster }) => {
    const readers = new Set<() => Metric[]>()
    const exposition = new Exposition()
    const clusterMetrics = (): Metric[] => {
      const { isReachable, gateways, ignored } = cluster.state()
      const one = (value: number) => [{ labels: {}, value }]
      return [
        {
          name: 'gateway_cluster_reachable',
          help: 'Whether the other gateways can be reached',
          type: 'gauge',
          samples: one(Number(isReachable)),
        },
        { name: 'gateway_cluster_gateways', help: 'Gateways that are alive', type: 'gauge', samples: one(gateways) },
        {
          name: 'gateway_cluster_ignored_total',
          help: 'Messages of other gateways that were ignored',
          type: 'counter',
          samples: one(ignored),
        },
      ]
    }
    if (cluster.isShared) readers.add(clusterMetrics)
    routes([
      route({
        method: 'GET',
        path: '/ops/health',
        access: 'operator',
        limit: 'read',
        summary: 'Deep health: how the gateway and what it needs are',
        description:
          'Always 200 while the gateway serves. Of several gateways, one that does not hear of the others goes on with its own nodes and is `degraded`.',
        returns: Health,
        handle: () => {
          const state = cluster.state()
          const status = state.isReachable ? ('ok' as const) : ('degraded' as const)
          return { status, uptimeSeconds: Math.floor(process.uptime()), cluster: state }
        },
      }),
      route({
        method: 'GET',
        path: '/ops/metrics',
        access: 'operator',
        limit: 'read',
        summary: 'Metrics in the text format of Prometheus',
        description:
          'Plugins: calls, errors, durations, restarts, memory, waiting calls, state. The process: memory, processor time, event loop. Let Prometheus send an API token of an operator: `authorization: {credentials: sk_...}`.',
        produces: ['text/plain'],
        handle: async () => {
          const { text, contentType } = await exposition.write([...readers].flatMap(read => read()))
          return new Reply(200, text, { 'Content-Type': contentType })
        },
      }),
    ])
    return {
      collect: read => {
        readers.add(read)
        return () => readers.delete(read)
      },
    }
  },
})
