import { StartError } from '../errors.js'
import type { Log } from '../log.js'
import type { Collection } from '../store/collection.js'
import type { Cluster } from './cluster.js'
import { installationOf, type Installation } from './installation.js'

export interface OpenCluster {
  cluster: Cluster
  close(): Promise<void>
}

/** Joins the gateways of this store. Throws a `StartError` where that cannot be configured so; Redis itself may be away. */
export const joinCluster = async (
  uri: string,
  { rows, leaseMs, log }: { rows: Collection<Installation>; leaseMs: number; log: Log },
): Promise<OpenCluster> => {
  const { RedisCluster } = await import('./redisCluster.js')
  const cluster = new RedisCluster({ uri, installation: await installationOf(rows), leaseMs, log })
  await cluster.start()
  return { cluster, close: () => cluster.close() }
}

/** Several gateways need one store. */
export const checkStore = (redisUri: string, mongoUri: string): void => {
  if (redisUri !== '' && mongoUri === '')
    throw new StartError(
      'Service:Cluster:RedisUri is set, but the store is the embedded one of this gateway alone: set Service:Store:MongoUri too',
    )
}
