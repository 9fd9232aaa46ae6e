import { fileURLToPath } from 'node:url'
import { pairNode } from '../plugins/nodes/support.js'
import { allKnown, lackingForCluster, startCluster, type TestCluster } from '../support/cluster.js'
import { waitFor } from '../support/waitFor.js'
import { median, row, startServer } from './measured.js'

const GATEWAYS = 4
const NODES_EACH = 8
const IN_FLIGHT = 64
const ROUNDS = 5
const MS = 2_000
const FAULT_MS = 6_000
const FAULT_AFTER_MS = 1_500

type Kind = 'call' | 'run'
const NAMES: Record<Kind, string> = { call: 'direct call', run: 'durable command' }

interface Measured {
  rate: number
  failed: number
  errors: string[]
}

const program = (name: string): string[] => ['--import', 'tsx', fileURLToPath(new URL(name, import.meta.url))]

/** Commands asked for at one gateway, to nodes at itself, at one other and at three others; also while something is away. */
export const benchCluster = async (): Promise<void> => {
  if (lackingForCluster !== undefined) {
    process.stdout.write(`Several gateways: skipped, ${lackingForCluster}\n`)
    return
  }
  const cluster = await startCluster(GATEWAYS, { program: program('clusterGateway.ts') })
  try {
    const nodeIds = await connectNodes(cluster)
    for (const kind of ['call', 'run'] satisfies Kind[]) await compare(cluster, kind, nodeIds)
    for (const kind of ['call', 'run'] satisfies Kind[]) await disturb(cluster, kind, nodeIds)
  } finally {
    await cluster.close()
  }
}

/** Ids of nodes by the gateway that they are connected to. */
const connectNodes = async (cluster: TestCluster): Promise<string[][]> => {
  const nodeIds = cluster.gateways.map((_, index) => Array.from({ length: NODES_EACH }, (__, n) => `bench-${String(index)}-${String(n)}`))
  const nodes: { url: string; token: string }[] = []
  for (const [index, { url }] of cluster.gateways.entries())
    for (const id of nodeIds[index] ?? [])
      nodes.push({ url, token: await pairNode(cluster.gateways[0]!, cluster.admin, id, ['bench.echo']) })
  const { process: child } = await startServer([process.execPath, ...program('clusterNodes.ts')], {
    ...process.env,
    NODES: JSON.stringify(nodes),
  })
  child.unref()
  const close = cluster.close
  cluster.close = async () => {
    child.kill('SIGKILL')
    await close()
  }
  await waitFor('the nodes to be seen', async () => {
    const page = await cluster.gateways[0]!.call('GET', '/nodes?limit=200', { token: cluster.admin })
    return (page.body.items as { status: string }[]).every(({ status }) => status === 'online')
  })
  return nodeIds
}

const measure = async (cluster: TestCluster, kind: Kind, nodeIds: string[], ms = MS): Promise<Measured> => {
  const body = { nodeIds, kind, inFlight: IN_FLIGHT, ms }
  const answer = await cluster.gateways[0]!.call('POST', '/bench', { token: cluster.admin, body })
  if (answer.status !== 200) throw new Error(answer.text)
  const { done, failed, ms: took, errors } = answer.body as { done: number; failed: number; ms: number; errors: string[] }
  return { rate: (done * 1000) / took, failed, errors }
}

const compare = async (cluster: TestCluster, kind: Kind, nodeIds: string[][]): Promise<void> => {
  const [local = [], other = [], ...rest] = nodeIds
  const places = { local, one: other, three: [other, ...rest].flat() }
  const rates: Record<keyof typeof places, number[]> = { local: [], one: [], three: [] }
  for (const ids of Object.values(places)) await measure(cluster, kind, ids, MS / 2)
  for (let round = 0; round < ROUNDS; round++)
    for (const [name, ids] of Object.entries(places) as [keyof typeof places, string[]][]) {
      const { rate, failed, errors } = await measure(cluster, kind, ids)
      if (failed > 0)
        throw new Error(
          [`${String(failed)} commands failed: ${errors.join('; ')}`, ...cluster.gateways.map(({ stderr }) => stderr().slice(-2000))].join(
            '\n',
          ),
        )
      rates[name].push(rate)
    }
  const [here, one, three] = [median(rates.local), median(rates.one), median(rates.three)]
  const show = (what: string, figure: number, peer: number, goal: string): void => {
    row(what, `${figure.toFixed(0)}/s`, `${peer.toFixed(0)}/s`, figure / peer, goal)
  }
  show(`Cluster: ${NAMES[kind]}, at another gateway / local`, one, here, 'at least 0.40')
  show(`Cluster: ${NAMES[kind]}, at three others / at one`, three, one, 'flat')
}

/** Commands to nodes at one other gateway, while the third is frozen and while Redis is started anew. */
const disturb = async (cluster: TestCluster, kind: Kind, nodeIds: string[][]): Promise<void> => {
  const faults = {
    'a third one frozen': {
      start: () => void cluster.gateways[2]!.kill('SIGSTOP'),
      end: () => void cluster.gateways[2]!.kill('SIGCONT'),
    },
    'Redis started anew': {
      start: async () => {
        await cluster.redis.kill()
        await cluster.redis.start()
      },
      end: () => undefined,
    },
  }
  for (const [name, { start, end }] of Object.entries(faults)) {
    const running = measure(cluster, kind, nodeIds[1] ?? [], FAULT_MS)
    await new Promise(resolve => setTimeout(resolve, FAULT_AFTER_MS))
    await start()
    const { rate, failed, errors } = await running
    end()
    const what = `Cluster: ${NAMES[kind]}, ${name}: failed`
    process.stdout.write(
      `${what.padEnd(52)} ${String(failed).padStart(12)} ${`${rate.toFixed(0)}/s`.padStart(12)} ${''.padStart(7)}   none\n`,
    )
    for (const error of errors) process.stdout.write(`    ${error}\n`)
    await allKnown(cluster)
  }
}
