import { row } from '../measured.js'
import { connectNodes, sizes, within, type Bench } from './bench.js'
import type { ClientTasks } from './clients.js'
import type { Protocol } from './nodes.js'
import type { Program } from './program.js'
import type { HubTasks, ServerTasks } from './server.js'

/** Connected and gone again before anything is measured: what a first connection loads is not a node's. */
const WARM_UP = 300
/** Of the specification. */
const HEARTBEAT_INTERVAL_S = 30
const BEATING_MS = 4000
const BURST = 20_000
const QUIET_MS = 1000

type Server = Pick<Program<ServerTasks>, 'ask'>
interface Connected {
  server: Server
  clients: Program<ClientTasks>
  protocol: Protocol
}

/** Kilobytes of resident memory for each of so many connected, idle nodes. */
const memoryPerNode = async ({ server, clients, protocol }: Connected, each: (count: number) => Promise<void>): Promise<number[]> => {
  await connectNodes(clients, { server, protocol, count: WARM_UP })
  await clients.ask('drop', undefined)
  const empty = await server.ask('memory', undefined)
  const kilobytes: number[] = []
  let connected = 0
  for (const count of sizes.idle) {
    await connectNodes(clients, { server, protocol, from: connected, count: count - connected })
    connected = count
    kilobytes.push(((await server.ask('memory', undefined)) - empty) / 1024 / count)
    await each(count)
  }
  return kilobytes
}

/** Microseconds of processor time that a heartbeat costs: many of them, less a while without. Each node has beaten once before. */
const costOfBeat = async ({ server, clients }: Connected, count: number): Promise<number> => {
  await clients.ask('burst', { count })
  const quiet = await workOf(server, () => new Promise(resolve => setTimeout(resolve, QUIET_MS)))
  const busy = await workOf(server, () => clients.ask('burst', { count: BURST }))
  return ((busy.cpuMs - (quiet.cpuMs / quiet.ms) * busy.ms) * 1000) / BURST
}

/** What a server does in the meantime. */
const workOf = async (server: Server, meanwhile: () => Promise<unknown>): Promise<{ ms: number; cpuMs: number; writtenBytes: number }> => {
  const before = await server.ask('work', undefined)
  const started = performance.now()
  await meanwhile()
  const after = await server.ask('work', undefined)
  const ms = performance.now() - started
  return { ms, cpuMs: after.cpuMs - before.cpuMs, writtenBytes: after.writtenBytes - before.writtenBytes }
}

/** Every node comes back at once, with commands on their way to them, while someone reads over REST. */
const storm = async (connected: Connected, hub: Program<HubTasks> | undefined): Promise<Storm> => {
  const url = await connected.server.ask('url', undefined)
  const count = sizes.idle.at(-1) ?? 0
  const ids = hub ? await hub.ask('enqueue', { count: COMMANDS, nodes: count }) : []
  const reading = hub && (await readingOver(url, hub))
  await connected.clients.ask('drop', undefined)
  const more = hub?.ask('enqueue', { count: COMMANDS, nodes: count })
  const { clients, protocol, server } = connected
  const back = { protocol, url, from: 0, count, atOnce: count, negotiates: true, retries: true }
  let refused = 0
  const { ms: readyMs, cpuMs } = await workOf(server, async () => ({ refused } = await clients.ask('connect', back)))
  const p99Ms = (await reading?.stop()) ?? 0
  const lost = hub ? await hub.ask('lost', [...ids, ...((await more) ?? [])]) : 0
  return { readyMs, cpuMsEach: cpuMs / count, refused, p99Ms, lost }
}

const COMMANDS = 200

interface Storm {
  readyMs: number
  /** Processor time of the server for each node. */
  cpuMsEach: number
  refused: number
  p99Ms: number
  lost: number
}

/** Reads a node again and again; `stop` tells the 99th percentile in milliseconds. */
const readingOver = async (url: string, hub: Program<HubTasks>): Promise<{ stop: () => Promise<number> }> => {
  const { token } = await hub.ask('login', undefined)
  const took: number[] = []
  let isOver = false
  const read = async (): Promise<void> => {
    while (!isOver) {
      const started = performance.now()
      const answer = await fetch(`${url}/api/nodes/bench-0`, { headers: { Authorization: `Bearer ${token}` } })
      await answer.arrayBuffer()
      if (!answer.ok) throw new Error(`The gateway answered ${answer.status} to a read`)
      took.push(performance.now() - started)
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
  const reading = read()
  return {
    stop: async () => {
      isOver = true
      await reading
      return took.sort((a, b) => a - b)[Math.floor(took.length * 0.99)] ?? NaN
    },
  }
}

const kb = (value: number | undefined): string => `${(value ?? NaN).toFixed(1)} KB`
const ms = (value: number): string => `${value.toFixed(0)} ms`
const us = (value: number): string => `${value.toFixed(1)} µs`
const growthOf = (costs: readonly number[]): number => (costs.at(-1) ?? NaN) / (costs[0] ?? NaN)

const benchProtocol = async (
  bench: Bench,
  protocol: 'socket.io' | 'signalr',
  bare: { kilobytes: number[]; costs: number[]; storm: Storm },
): Promise<void> => {
  const largest = sizes.idle.at(-1) ?? 0
  const hub = await bench.gateway(largest)
  const connected = { server: hub, clients: bench.clients(), protocol }
  const costs: number[] = []
  const kilobytes = await memoryPerNode(connected, async count => void costs.push(await costOfBeat(connected, count)))
  for (const [index, count] of sizes.idle.entries()) {
    const [ours = NaN, peer = NaN] = [kilobytes[index], bare.kilobytes[index]]
    row(`Hub: memory of a node, ${protocol}, ${count} / Socket.IO`, kb(ours), kb(peer), ours / peer, 'at most 24 KB at 5000')
  }
  const [grown, bareGrown] = [growthOf(costs), growthOf(bare.costs)]
  const growth = `Hub: a heartbeat of ${largest} nodes for one of ${sizes.idle[0] ?? 0}, ${protocol} / Socket.IO`
  row(growth, `${grown.toFixed(2)} times`, `${bareGrown.toFixed(2)} times`, grown / bareGrown, 'does not grow')
  const [cost = NaN, bareCost = NaN] = [costs.at(-1), bare.costs.at(-1)]
  row(`Hub: a heartbeat of ${largest} nodes, ${protocol} / Socket.IO`, us(cost), us(bareCost), cost / bareCost, '')
  const beats = { perSecond: largest / HEARTBEAT_INTERVAL_S, milliseconds: BEATING_MS }
  const { ms: took, cpuMs, writtenBytes } = await workOf(hub, () => connected.clients.ask('beat', beats))
  const [share, disk] = [cpuMs / took, `${kb(writtenBytes / 1024)} to disk`]
  row(`Hub: ${largest} nodes beat every 30 s, ${protocol}`, `${(share * 100).toFixed(1)} %`, '', share, disk)
  const stormy = await storm(connected, hub)
  row(
    `Hub: storm of ${largest}, ${protocol}, all ready / Socket.IO`,
    ms(stormy.readyMs),
    ms(bare.storm.readyMs),
    stormy.readyMs / bare.storm.readyMs,
    '',
  )
  const [cpu, bareCpu] = [stormy.cpuMsEach, bare.storm.cpuMsEach]
  row(
    `Hub: storm, ${protocol}, work for a node / Socket.IO`,
    `${cpu.toFixed(2)} ms`,
    `${bareCpu.toFixed(2)} ms`,
    cpu / bareCpu,
    'processor time',
  )
  row(
    `Hub: storm, ${protocol}, commands lost of ${2 * COMMANDS}`,
    String(stormy.lost),
    '',
    stormy.lost,
    `none; ${stormy.refused} refused at first`,
  )
  row(`Hub: storm, ${protocol}, p99 of a REST read`, ms(stormy.p99Ms), '', stormy.p99Ms, 'answers all along')
}

/** What connected nodes cost: memory, heartbeats, and all of them coming back at once. */
export const benchIdle = async (directory: string): Promise<void> => {
  const bare = await within(directory, async bench => {
    const server = bench.server<ServerTasks>('socket.io')
    const connected = { server, clients: bench.clients(), protocol: 'socket.io' as const }
    const costs: number[] = []
    const kilobytes = await memoryPerNode(connected, async count => void costs.push(await costOfBeat(connected, count)))
    return { kilobytes, costs, storm: await storm(connected, undefined) }
  })
  for (const protocol of ['socket.io', 'signalr'] as const) await within(directory, bench => benchProtocol(bench, protocol, bare))
}
