import { join } from 'node:path'
import { openMongoStore } from '../../core/store/mongo.js'
import { allKnown, lackingForCluster, startCluster, type TestCluster } from '../support/cluster.js'
import { waitFor } from '../support/waitFor.js'
import { bundlePrograms } from './bundle.js'
import type { ClientTasks } from './hub/clients.js'
import { nodeIdOf } from './hub/names.js'
import { startProgram, type Program } from './hub/program.js'
import { seedNodes } from './hub/seed.js'
import { median, row } from './measured.js'

const GATEWAYS = 4
/** More than commands in flight, as where the local rate is measured: few nodes would get several at a time. */
const NODES_EACH = 250
const IN_FLIGHT = 64
/** As a gateway has it: on a busy machine the tests' short one runs out. */
const LEASE = { 'Service:Cluster:Lease': '10' }
const ROUNDS = 5
const MS = 1_500
const FAULT_MS = 5_000
const FAULT_AFTER_MS = 1_500

type Kind = 'call' | 'run'
const NAMES: Record<Kind, string> = { call: 'direct call', run: 'durable command' }
/** CLUSTER_KINDS: what is measured, comma-separated. */
const KINDS = (process.env.CLUSTER_KINDS ?? 'call,run').split(',').filter((kind): kind is Kind => kind in NAMES)

interface Measured {
  rate: number
  failed: number
  errors: string[]
}

/** Commands asked for at one gateway, to nodes at itself and at others; with two gateways, with four, and while something is away. */
export const benchCluster = async (): Promise<void> => {
  if (lackingForCluster !== undefined) {
    process.stdout.write(`Several gateways: skipped, ${lackingForCluster}\n`)
    return
  }
  const { directory, remove } = await bundlePrograms('clusterGateway.ts', 'hub/clients.ts')
  try {
    await measureAll(directory)
  } finally {
    await remove()
  }
}

const measureAll = async (directory: string): Promise<void> => {
  const cluster = await startCluster(GATEWAYS, { program: [join(directory, 'clusterGateway.js')], running: 2, settings: LEASE })
  const clients = startProgram<ClientTasks>(join(directory, 'clients.js'))
  try {
    const { id: userId, tenant } = (await cluster.gateways[0]!.call('GET', '/auth/me', { token: cluster.admin })).body as User
    await seedNodes(await openMongoStore({ uri: cluster.mongoUri }), { userId, tenant }, GATEWAYS * NODES_EACH)
    await connectNodes(cluster, clients, [0, 1])
    await compare(cluster, 'call', `${NAMES.call}, two gateways: at the other / local`, [0], [1])
    for (const index of [2, 3]) await cluster.start(index)
    await allKnown(cluster)
    await connectNodes(cluster, clients, [2, 3])
    for (const kind of KINDS) {
      await compare(cluster, kind, `${NAMES[kind]}, four gateways: at another / local`, [0], [1])
      await compare(cluster, kind, `${NAMES[kind]}, four gateways: at three / local`, [0], [1, 2, 3])
      await disturb(cluster, kind)
    }
  } finally {
    await clients.stop()
    await cluster.close()
  }
}

interface User {
  id: string
  tenant: string | null
}

const nodesAt = (gateways: number[]): string[] =>
  gateways.flatMap(gateway => Array.from({ length: NODES_EACH }, (_, n) => nodeIdOf(gateway * NODES_EACH + n)))

/** Connects nodes to these gateways, from another process. */
const connectNodes = async ({ gateways, admin }: TestCluster, clients: Program<ClientTasks>, at: number[]): Promise<void> => {
  for (const index of at) {
    const { url } = gateways[index]!
    await clients.ask('connect', { protocol: 'socket.io', url, from: index * NODES_EACH, count: NODES_EACH, atOnce: 64 })
  }
  const last = nodesAt(at).at(-1) ?? ''
  await waitFor('the last node to be seen', async () => {
    return (await gateways[0]!.call('GET', `/nodes/${last}`, { token: admin })).body.status === 'online'
  })
}

const measure = async ({ gateways, admin }: TestCluster, kind: Kind, at: number[], ms = MS): Promise<Measured> => {
  const body = { nodeIds: nodesAt(at), kind, inFlight: IN_FLIGHT, ms }
  const answer = await gateways[0]!.call('POST', '/bench', { token: admin, body })
  if (answer.status !== 200) throw new Error(answer.text)
  const { done, failed, ms: took, errors } = answer.body as { done: number; failed: number; ms: number; errors: string[] }
  return { rate: (done * 1000) / took, failed, errors }
}

/** Interleaved runs at both places. */
const compare = async (cluster: TestCluster, kind: Kind, what: string, here: number[], there: number[]): Promise<void> => {
  const places = [here, there].map(at => ({ at, rates: [] as number[] }))
  for (const { at } of places) await measure(cluster, kind, at, MS / 2)
  for (let round = 0; round < ROUNDS; round++)
    for (const { at, rates } of places) {
      const { rate, failed, errors } = await measure(cluster, kind, at)
      for (const error of errors) process.stdout.write(`    ${String(failed)} failed: ${error}\n`)
      rates.push(rate)
    }
  const [local = 0, remote = 0] = places.map(({ rates }) => median(rates))
  row(`Cluster: ${what}`, `${remote.toFixed(0)}/s`, `${local.toFixed(0)}/s`, remote / local, 'at least 0.40')
}

/** Commands to nodes at one other gateway, while a third one is frozen and while Redis is started anew. */
const disturb = async (cluster: TestCluster, kind: Kind): Promise<void> => {
  const freeze = (): void => {
    cluster.gateways[2]!.kill('SIGSTOP')
  }
  const restart = async (): Promise<void> => {
    await cluster.redis.kill()
    await cluster.redis.start()
  }
  for (const [name, disturbance] of Object.entries({ 'a third one frozen': freeze, 'Redis started anew': restart })) {
    const running = measure(cluster, kind, [1], FAULT_MS)
    await new Promise(resolve => setTimeout(resolve, FAULT_AFTER_MS))
    await disturbance()
    const { rate, failed, errors } = await running
    cluster.gateways[2]!.kill('SIGCONT')
    const what = `Cluster: ${NAMES[kind]}, ${name}: failed`
    process.stdout.write(
      `${what.padEnd(52)} ${String(failed).padStart(12)} ${`${rate.toFixed(0)}/s`.padStart(12)} ${''.padStart(7)}   none\n`,
    )
    for (const error of errors) process.stdout.write(`    ${error}\n`)
    await allKnown(cluster)
  }
}
