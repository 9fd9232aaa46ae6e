// A gateway that sends itself commands as its areas do: clusterGateway.ts --default KEY=VALUE ...
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { createApp } from '../../core/app.js'
import { Config } from '../../core/config.js'
import { route } from '../../core/http/route.js'
import { createLog } from '../../core/log.js'
import { definePlugin } from '../../core/plugin.js'
import { plugins } from '../../plugins/index.js'
import { nodes } from '../../plugins/nodes/contract.js'

const driver = definePlugin({
  id: 'bench-driver',
  needs: { nodes },
  setup: ({ needs, routes }) => {
    routes([
      route({
        method: 'POST',
        path: '/bench',
        access: 'user',
        limit: 'none',
        summary: 'Keep so many commands in flight for so long, and count them',
        body: z.object({ nodeIds: z.array(z.string()), kind: z.enum(['call', 'run']), inFlight: z.number(), ms: z.number() }),
        returns: z.object({ done: z.number(), failed: z.number(), ms: z.number(), errors: z.array(z.string()) }),
        handle: async ({ caller, body: { nodeIds, kind, inFlight, ms } }) => {
          const owner = { tenant: caller.tenant, userId: caller.userId }
          const command = { command: 'bench.echo', params: { text: 'x'.repeat(150) }, timeoutMs: 30_000 }
          const errors = new Set<string>()
          let done = 0
          let failed = 0
          const startedAt = performance.now()
          const keepGoing = async (_: unknown, first: number): Promise<void> => {
            for (let i = first; performance.now() - startedAt < ms; i += inFlight) {
              const nodeId = nodeIds[i % nodeIds.length] ?? ''
              try {
                const { ok, error } = await (kind === 'call'
                  ? needs.nodes.call(owner, nodeId, command)
                  : needs.nodes.run(owner, nodeId, command, new AbortController().signal))
                if (ok !== true) throw new Error(error?.message ?? 'not ended')
                done += 1
              } catch (error) {
                failed += 1
                if (errors.size < 5) errors.add((error as Error).message)
              }
            }
          }
          await Promise.all(Array.from({ length: inFlight }, keepGoing))
          return { done, failed, ms: performance.now() - startedAt, errors: [...errors] }
        },
      }),
    ])
  },
})

const { default: pairs = [] } = parseArgs({ options: { default: { type: 'string', multiple: true } } }).values
const defaults = Object.fromEntries(pairs.map(pair => [pair.slice(0, pair.indexOf('=')), pair.slice(pair.indexOf('=') + 1)]))
const file = join(defaults['Service:DataDir'] ?? '.', 'service.json')
const app = createApp([...plugins, driver], { config: new Config({ file, defaults, env: process.env }), log: createLog({ level: 'warn' }) })
process.on('SIGTERM', () => {
  void app.stop().finally(() => process.exit(0))
})
const { url } = await app.start()
process.stdout.write(`listening on ${url}\n`)
