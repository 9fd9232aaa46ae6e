import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { ClientTasks } from './hub/clients.js'
import type { Rate } from './hub/lanes.js'
import type { Protocol } from './hub/nodes.js'
import { bundlePrograms, startProgram, type Program, type TaskList } from './hub/program.js'
import { seedNodes } from './hub/seed.js'
import type { BareTasks, HubTasks } from './hub/server.js'
import { median, row } from './measured.js'

const NODES = 1000
const IN_FLIGHT = 64
const ROUNDS = Number(process.env.HUB_ROUNDS ?? 5)
const MILLISECONDS = Number(process.env.HUB_MS ?? 1000)

/** What runs for one measurement, and is gone after it. */
class Bench {
  readonly #directory: string
  readonly #undo: (() => Promise<unknown>)[] = []

  constructor(directory: string) {
    this.#directory = directory
  }

  async server<Tasks extends TaskList>(mode: string, ...args: string[]): Promise<Program<Tasks>> {
    const profile = process.env.HUB_PROFILE
    const program = await startProgram<Tasks>(join(this.#directory, 'server.js'), {
      core: 0,
      execArgv: ['--expose-gc', ...(profile && mode === 'gateway' ? ['--cpu-prof', `--cpu-prof-dir=${profile}`] : [])],
      args: [mode, ...args],
    })
    this.#undo.push(() => program.stop())
    return program
  }

  async clients(): Promise<Program<ClientTasks>> {
    const program = await startProgram<ClientTasks>(join(this.#directory, 'clients.js'), { core: 1 })
    this.#undo.push(() => program.stop())
    return program
  }

  /** A gateway that knows so many paired nodes. */
  async gateway(count: number): Promise<Program<HubTasks>> {
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-bench-'))
    this.#undo.push(() => rm(dataDir, { recursive: true, force: true }))
    const first = await this.server<HubTasks>('gateway', dataDir)
    const { owner } = await first.ask('login', undefined)
    await first.ask('stop', undefined)
    await first.stop()
    await seedNodes(dataDir, owner, count)
    return this.server<HubTasks>('gateway', dataDir)
  }

  async end(): Promise<void> {
    for (const undo of this.#undo.toReversed()) await undo()
  }
}

const within = async <R>(directory: string, measure: (bench: Bench) => Promise<R>): Promise<R> => {
  const bench = new Bench(directory)
  try {
    return await measure(bench)
  } finally {
    await bench.end()
  }
}

const rateOf = (rounds: Rate[]): Rate => ({
  rate: median(rounds.map(({ rate }) => rate)),
  p50Ms: median(rounds.map(({ p50Ms }) => p50Ms)),
  p99Ms: median(rounds.map(({ p99Ms }) => p99Ms)),
  cpuMicros: median(rounds.map(({ cpuMicros }) => cpuMicros)),
})

/** Interleaved with its bare peer, `run` by `run`. */
const compare = async (runs: (() => Promise<Rate>)[]): Promise<Rate[]> => {
  const rounds = runs.map((): Rate[] => [])
  for (const run of runs) await run()
  for (let round = 0; round < ROUNDS; round++) for (const [index, run] of runs.entries()) rounds[index]?.push(await run())
  return rounds.map(rateOf)
}

const figure = ({ rate, cpuMicros }: Rate): string => `${rate.toFixed(0)}/s ${cpuMicros.toFixed(0)}`
const micros = ({ p50Ms }: Rate): string => `${(p50Ms * 1000).toFixed(0)} µs`

/** A call of a node and its answer, nothing written, against JSON over a WebSocket and back. */
const benchRoundTrips = async (directory: string): Promise<void> => {
  for (const protocol of (process.env.HUB_PROTO?.split(',') ?? ['socket.io', 'signalr']) as ('socket.io' | 'signalr')[])
    await within(directory, async bench => {
      const [hub, bare] = [await bench.gateway(NODES), await bench.server<BareTasks>('ws')]
      await connectTo(await bench.clients(), hub, protocol)
      await connectTo(await bench.clients(), bare, 'ws')
      const run = (server: Pick<Program<BareTasks>, 'ask'>, inFlight: number) => () =>
        server.ask('roundTrips', { inFlight, milliseconds: MILLISECONDS, nodes: NODES })
      const [bare64, hub64, bare1, hub1] = (await compare([run(bare, IN_FLIGHT), run(hub, IN_FLIGHT), run(bare, 1), run(hub, 1)])) as [
        Rate,
        Rate,
        Rate,
        Rate,
      ]
      const goal = protocol === 'signalr' ? '0.70' : '0.55'
      row(
        `Hub: call over ${protocol}, ${IN_FLIGHT} in flight / ws JSON`,
        figure(hub64),
        figure(bare64),
        hub64.rate / bare64.rate,
        `at least ${goal}`,
      )
      row(`Hub: p50 over ${protocol}, 1 in flight / ws JSON`, micros(hub1), micros(bare1), hub1.p50Ms / bare1.p50Ms, 'at most 1.3')
      row(`Hub: p50 over ${protocol}, ${IN_FLIGHT} in flight / ws JSON`, micros(hub64), micros(bare64), hub64.p50Ms / bare64.p50Ms, '')
    })
}

const connectTo = async (clients: Program<ClientTasks>, server: Pick<Program<BareTasks>, 'ask'>, protocol: Protocol, count = NODES) => {
  const url = await server.ask('url', undefined)
  await clients.ask('connect', { protocol, url, from: 0, count, atOnce: 64 })
}

/** A command from one HTTP request or two to its result, two durable writes, against one such write. */
const benchDurable = (directory: string): Promise<void> =>
  within(directory, async bench => {
    const hub = await bench.gateway(NODES)
    const clients = await bench.clients()
    await connectTo(clients, hub, 'socket.io')
    const [url, { token }] = [await hub.ask('url', undefined), await hub.ask('login', undefined)]
    const common = { inFlight: IN_FLIGHT, milliseconds: MILLISECONDS }
    const commands = (waits: boolean) => async () => {
      const before = await hub.ask('cpu', undefined)
      const rate = await clients.ask('runCommands', { url, token, nodes: NODES, waits, ...common })
      const after = await hub.ask('cpu', undefined)
      console.log('user', ((after.user - before.user) / (rate.rate * MILLISECONDS/1000)).toFixed(0), 'system', ((after.system - before.system) / (rate.rate * MILLISECONDS/1000)).toFixed(0)); return { ...rate, cpuMicros: (after.user + after.system - before.user - before.system) / ((rate.rate * MILLISECONDS) / 1000) }
    }
    const [writes, once, twice] = (await compare(
      process.env.HUB_ONLY
        ? [commands(true), commands(true), commands(true)]
        : [() => hub.ask('writes', common), commands(true), commands(false)],
    )) as [Rate, Rate, Rate]
    const goal = 'at least 0.40'
    row('Hub: durable command, POST waits / durable write', figure(once), figure(writes), once.rate / writes.rate, goal)
    row('Hub: durable command, POST then GET / durable write', figure(twice), figure(writes), twice.rate / writes.rate, '')
    row(`Hub: durable command, p50 at ${IN_FLIGHT} / durable write`, micros(once), micros(writes), once.p50Ms / writes.p50Ms, '')
  })

export const benchHub = async (): Promise<void> => {
  const { directory, remove } = await bundlePrograms('server', 'clients')
  const parts: Record<string, (directory: string) => Promise<void>> = { calls: benchRoundTrips, durable: benchDurable }
  const wanted = process.env.HUB_BENCH?.split(',')
  try {
    for (const [name, part] of Object.entries(parts)) if (wanted?.includes(name) ?? true) await part(directory)
  } finally {
    await remove()
  }
}
