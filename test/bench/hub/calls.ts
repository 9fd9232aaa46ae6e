import { row } from '../measured.js'
import { connectNodes, sizes, within } from './bench.js'
import { compare } from './compare.js'
import type { Program } from './program.js'
import type { BareTasks } from './server.js'

/** A call of a node and its answer, nothing written, against JSON over a WebSocket and back. */
export const benchCalls = async (directory: string): Promise<void> => {
  for (const protocol of ['socket.io', 'signalr'] as const)
    await within(directory, async bench => {
      const [hub, bare] = [await bench.gateway(sizes.nodes), bench.server<BareTasks>('ws')]
      await connectNodes(bench.clients(), { server: hub, protocol, count: sizes.nodes })
      await connectNodes(bench.clients(), { server: bare, protocol: 'ws', count: sizes.nodes })
      const run = (server: Pick<Program<BareTasks>, 'ask'>, inFlight: number) => () =>
        server.ask('roundTrips', { inFlight, milliseconds: sizes.milliseconds, nodes: sizes.nodes })
      const many = sizes.inFlight
      const rounds = await compare({ bare: run(bare, many), hub: run(hub, many), bareOne: run(bare, 1), hubOne: run(hub, 1) })
      const goal = `at least ${protocol === 'signalr' ? '0.70' : '0.55'}`
      row(
        `Hub: call, ${protocol}, ${many} in flight / ws JSON`,
        rounds.rate('hub'),
        rounds.rate('bare'),
        rounds.ratio('hub', 'bare', 'rate'),
        goal,
      )
      const p50 = [rounds.p50('hubOne'), rounds.p50('bareOne')] as const
      row(`Hub: call, ${protocol}, p50 of one at a time / ws JSON`, ...p50, rounds.ratio('hubOne', 'bareOne', 'p50Ms'), 'at most 1.3')
    })
}
