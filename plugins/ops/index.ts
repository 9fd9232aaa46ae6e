import { Reply, route } from '../../core/http/route.js'
import { definePlugin } from '../../core/plugin.js'
import { metrics, type Metric } from './contract.js'
import { Exposition } from './exposition.js'

/** What an operator watches the gateway with. */
export default definePlugin({
  id: 'ops',
  tags: { ops: 'Running the gateway.' },
  provides: metrics,
  setup: ({ routes }) => {
    const readers = new Set<() => Metric[]>()
    const exposition = new Exposition()
    routes([
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
