import { join } from 'node:path'
import type { Log } from '../log.js'
import type { Store } from './collection.js'

export interface StoreOptions {
  /** Where the embedded store keeps its file, `store.db`. */
  dataDir: string
  /** A MongoDB connection string; without one the store is the embedded one. */
  mongoUri?: string | undefined
  log?: Pick<Log, 'warn'> | undefined
}

/**
 * Opens the gateway's store: MongoDB when there is a connection string, else the embedded store in the data directory.
 * Throws when the server cannot be reached, or when another process holds the directory.
 */
export const openStore = async ({ dataDir, mongoUri, log }: StoreOptions): Promise<Store> => {
  if (mongoUri !== undefined) {
    const { openMongoStore } = await import('./mongo.js')
    return openMongoStore({ uri: mongoUri, log })
  }
  const { openSqliteStore } = await import('./sqlite.js')
  return openSqliteStore({ file: join(dataDir, 'store.db'), log })
}
