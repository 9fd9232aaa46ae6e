import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import { clockAhead } from './clockAhead.js'
import { ADMIN } from './gateway.js'
import { launchGateway, type GatewayProcess } from './gatewayProcess.js'
import { hasRedis, startRedis, type TestRedis } from './redis.js'
import { waitFor } from './waitFor.js'

const mongoUri = process.env.MONGODB_URI

/** What is missing to run several gateways; `undefined`: nothing. */
export const lackingForCluster = mongoUri === undefined ? 'MONGODB_URI is not set' : hasRedis ? undefined : 'there is no redis-server'

/** Several gateways in processes of their own, on one database and one Redis. */
export interface TestCluster {
  redis: TestRedis
  /** The database that they share. */
  mongoUri: string
  gateways: GatewayProcess[]
  /** An administrator's token, good at each of them. */
  admin: string
  /** Starts the gateway of this number, again or for the first time, at the port that it had. */
  start(index: number): Promise<GatewayProcess>
  close(): Promise<void>
}

/** How long a gateway that was killed is taken for alive, in seconds. */
const LEASE_SECONDS = 5

interface ClusterOptions {
  settings?: Record<string, string>
  program?: string[]
  running?: number
  /** How far the clock of each gateway is ahead of the right time. */
  clocksMs?: number[]
}

export const startCluster = async (
  count: number,
  { settings = {}, program = ['dist/main.js'], running = count, clocksMs = [] }: ClusterOptions = {},
): Promise<TestCluster> => {
  const redis = await startRedis({ password: 'secret of the cluster' })
  const database = `agent-gateway-test-${randomBytes(4).toString('hex')}`
  const ownUri = new URL(`/${database}`, mongoUri).href
  const directories = await Promise.all(Array.from({ length: count }, () => mkdtemp(join(tmpdir(), 'cluster-test-'))))
  const ports: string[] = []
  const vaultKey = randomBytes(32).toString('base64')
  const gateways: GatewayProcess[] = []

  const at = (port: string | undefined) => (port === undefined ? {} : { 'Service:Port': port })
  const start = async (index: number): Promise<GatewayProcess> => {
    const common = { 'Service:Admin:Password': ADMIN.password, 'Service:Cluster:Lease': String(LEASE_SECONDS) }
    const env = {
      Service__Store__MongoUri: ownUri,
      Service__Cluster__RedisUri: redis.uri,
      Service__Vault__Key: vaultKey,
    }
    const gateway = await launchGateway({
      dataDir: directories[index] ?? '',
      settings: { ...common, ...at(ports[index]), ...settings },
      env,
      program: [...(clocksMs[index] ? clockAhead(clocksMs[index]) : []), ...program],
    })
    ports[index] = new URL(gateway.url).port
    gateways[index] = gateway
    return gateway
  }
  const close = async (): Promise<void> => {
    for (const gateway of gateways) gateway.kill('SIGCONT')
    await Promise.all(gateways.map(gateway => gateway.stop()))
    await redis.close()
    await Promise.all(directories.map(directory => rm(directory, { recursive: true, force: true, maxRetries: 5 })))
    const client = await MongoClient.connect(mongoUri ?? '')
    await client.db(database).dropDatabase()
    await client.close()
  }
  try {
    // The first makes the administrator and the indexes.
    const first = await start(0)
    for (let index = 1; index < running; index++) await start(index)
    const admin = (await first.call('POST', '/auth/login', { body: ADMIN })).body.token as string
    const cluster = { redis, mongoUri: ownUri, gateways, admin, start, close }
    await allKnown(cluster)
    return cluster
  } catch (error) {
    await close()
    throw error
  }
}

/** Waits until each gateway knows of as many as there are. */
export const allKnown = ({ gateways, admin }: Pick<TestCluster, 'gateways' | 'admin'>, count = gateways.length): Promise<unknown> =>
  waitFor('the gateways to know each other', async () => {
    const states = await Promise.all(gateways.map(gateway => gateway.call('GET', '/ops/health', { token: admin })))
    return states.every(({ body }) => body.cluster.gateways === count && body.cluster.isReachable)
  })
