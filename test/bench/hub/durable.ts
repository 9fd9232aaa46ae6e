import { row } from '../measured.js'
import { connectNodes, sizes, within } from './bench.js'
import { compare } from './compare.js'

/**
 * A command from the request of its sender to the result in the answer, with two durable writes, against one such write:
 * an insertion into the same store by the same process, of the same document with the same indexes: one at a time, each
 * with a commit of its own, and as many at a time as there are commands.
 */
export const benchDurable = (directory: string): Promise<void> =>
  within(directory, async bench => {
    const hub = await bench.gateway(sizes.nodes)
    const clients = bench.clients()
    await connectNodes(clients, { server: hub, protocol: 'socket.io', count: sizes.nodes })
    const [url, { token }] = [await hub.ask('url', undefined), await hub.ask('login', undefined)]
    const { inFlight, milliseconds, nodes } = sizes
    const ask = (how: 'waits' | 'polls' | 'writes') => () => clients.ask('callRest', { url, token, nodes, inFlight, milliseconds, how })
    const rounds = await compare({
      writes: () => hub.ask('writes', { inFlight, milliseconds }),
      alone: () => hub.ask('writes', { inFlight: 1, milliseconds }),
      requests: ask('writes'),
      waits: ask('waits'),
      polls: ask('polls'),
    })
    const against = (name: 'waits' | 'polls', bare: 'writes' | 'alone' | 'requests') =>
      [rounds.rate(name), rounds.rate(bare), rounds.ratio(name, bare, 'rate')] as const
    row('Hub: durable command, POST waits / durable write, each its own commit', ...against('waits', 'alone'), 'at least 0.40')
    row(`Hub: durable command, POST waits / durable write, ${inFlight} share commits`, ...against('waits', 'writes'), 'at least 0.40')
    row(`Hub: durable command, POST and GET / durable write, ${inFlight} share commits`, ...against('polls', 'writes'), '')
    row('Hub: durable command, POST waits / POST that writes', ...against('waits', 'requests'), '')
    const p50 = [rounds.p50('waits'), rounds.p50('writes')] as const
    row(`Hub: durable command, p50 of ${inFlight} / durable write`, ...p50, rounds.ratio('waits', 'writes', 'p50Ms'), '')
  })
