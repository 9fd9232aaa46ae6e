import { randomBytes } from 'node:crypto'
import { join } from 'node:path'
import { MongoClient } from 'mongodb'
import type { Store } from '../../core/store/collection.js'
import { openMongoStore } from '../../core/store/mongo.js'
import { openSqliteStore } from '../../core/store/sqlite.js'
import { temporaryDirectory } from './store.js'

export interface OpenedStore {
  store: Store
  /** Closes it and removes what it holds. */
  remove(): Promise<void>
}

const openEmbedded = async (): Promise<OpenedStore> => {
  const directory = await temporaryDirectory()
  const store = await openSqliteStore({ file: join(directory.path, 'store.db') })
  return {
    store,
    remove: async () => {
      await store.close()
      await directory.remove()
    },
  }
}

const openMongo = async (uri: string): Promise<OpenedStore> => {
  const database = `agent-gateway-test-${randomBytes(4).toString('hex')}`
  const store = await openMongoStore({ uri, database })
  return {
    store,
    remove: async () => {
      await store.close()
      const client = await MongoClient.connect(uri)
      await client.db(database).dropDatabase()
      await client.close()
    },
  }
}

const uri = process.env.MONGODB_URI

/** The engines that can be had here, by name; the one of MongoDB where `MONGODB_URI` is set. */
export const engines: [name: string, open: () => Promise<OpenedStore>][] = [
  ['the embedded store', openEmbedded],
  ...(uri === undefined ? [] : [['MongoDB', () => openMongo(uri)] as [string, () => Promise<OpenedStore>]]),
]
