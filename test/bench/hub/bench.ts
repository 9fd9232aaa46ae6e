import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import type { ClientTasks } from './clients.js'
import type { Protocol } from './nodes.js'
import { startProgram, type Program, type TaskList } from './program.js'
import { seedNodes } from './seed.js'
import type { HubTasks, ServerTasks } from './server.js'

const number = (name: string, otherwise: number): number => Number(process.env[name] ?? otherwise)

/** What is run; each can be set by its environment variable. */
export const sizes = {
  /** HUB_NODES: connected nodes, where rates are measured. */
  nodes: number('HUB_NODES', 1000),
  /** HUB_IDLE: how many idle nodes memory is measured with, one after the other, comma-separated; the last has its storm. */
  idle: (process.env.HUB_IDLE ?? '1000,5000').split(',').map(Number),
  inFlight: 64,
  /** HUB_ROUNDS, HUB_MS: rounds, and how long each side is measured in one. */
  rounds: number('HUB_ROUNDS', 5),
  milliseconds: number('HUB_MS', 600),
}

/** What runs for one measurement, and is gone after it. */
export class Bench {
  readonly #directory: string
  readonly #undo: (() => Promise<unknown>)[] = []

  constructor(directory: string) {
    this.#directory = directory
  }

  server<Tasks extends TaskList>(mode: 'ws' | 'socket.io' | 'gateway', ...args: string[]): Program<Tasks> {
    const execArgv = ['--expose-gc', ...(process.env.HUB_NODE_ARGS?.split(' ') ?? [])]
    const program = startProgram<Tasks>(join(this.#directory, 'server.js'), { core: 0, execArgv, args: [mode, ...args] })
    this.#undo.push(() => program.stop())
    return program
  }

  clients(): Program<ClientTasks> {
    const program = startProgram<ClientTasks>(join(this.#directory, 'clients.js'), { core: 1 })
    this.#undo.push(() => program.stop())
    return program
  }

  /** A gateway that knows so many paired nodes. */
  async gateway(count: number): Promise<Program<HubTasks>> {
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-bench-'))
    this.#undo.push(() => rm(dataDir, { recursive: true, force: true }))
    const first = this.server<HubTasks>('gateway', dataDir)
    const { owner } = await first.ask('login', undefined)
    await first.ask('stop', undefined)
    await first.stop()
    await seedNodes(await openSqliteStore({ file: join(dataDir, 'store.db') }), owner, count)
    return this.server<HubTasks>('gateway', dataDir)
  }

  async end(): Promise<void> {
    for (const undo of this.#undo.toReversed()) await undo()
  }
}

export const within = async <R>(directory: string, measure: (bench: Bench) => Promise<R>): Promise<R> => {
  const bench = new Bench(directory)
  try {
    return await measure(bench)
  } finally {
    await bench.end()
  }
}

interface Connected {
  server: Pick<Program<ServerTasks>, 'ask'>
  protocol: Protocol
  from?: number
  count: number
}

export const connectNodes = async (clients: Program<ClientTasks>, { server, protocol, from = 0, count }: Connected): Promise<void> => {
  const url = await server.ask('url', undefined)
  await clients.ask('connect', { protocol, url, from, count, atOnce: 64 })
}
