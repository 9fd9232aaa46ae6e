import type { Db, MongoClient } from 'mongodb'
import { StartError } from '../errors.js'
import type { Log } from '../log.js'
import type { Collection, CollectionSpec, Document, Store } from './collection.js'
import { MongoCollection, type MongoRow } from './mongo/collection.js'
import { explain } from './mongo/errors.js'
import { applyIndexes } from './mongo/indexes.js'
import { startSweeping } from './sweep.js'

export interface MongoOptions {
  /** The connection string; the database is the one it names, else `agent-gateway`. */
  uri: string
  log?: Pick<Log, 'warn'> | undefined
  /** Overrides the database's name. */
  database?: string
}

const defaultDatabase = 'agent-gateway'
const connectTimeoutMs = 10_000

/** Opens the store on a MongoDB server. Throws when it cannot be reached within 10 s. The error does not repeat the connection string. */
export const openMongoStore = async ({ uri, log, database }: MongoOptions): Promise<Store> => {
  const { MongoClient: Client } = await import('mongodb')
  const client = createClient(Client, uri)
  try {
    await client.connect()
  } catch (error) {
    await client.close()
    throw new StartError(`The MongoDB server cannot be reached: ${(error as Error).message}. Check Service:Store:MongoUri and the server`, {
      cause: error,
    })
  }
  return new MongoStore(client, client.db(database ?? (client.options.dbName === 'test' ? defaultDatabase : client.options.dbName)), log)
}

const createClient = (Client: typeof MongoClient, uri: string): MongoClient => {
  try {
    return new Client(uri, {
      serverSelectionTimeoutMS: connectTimeoutMs,
      writeConcern: { w: 'majority', journal: true },
      readPreference: 'primary',
      ignoreUndefined: true,
      appName: 'agent-gateway',
    })
  } catch (error) {
    // The driver's own message may repeat the string, with the password in it.
    throw new StartError(
      'Service:Store:MongoUri cannot be read: write mongodb://USER:PASSWORD@HOST:PORT/DATABASE, with special characters as percent-encodings',
      { cause: error },
    )
  }
}

interface Declared {
  spec: CollectionSpec<Document>
  handle: MongoCollection<Document>
}

class MongoStore implements Store {
  readonly engine = 'mongodb'
  readonly #client: MongoClient
  readonly #db: Db
  readonly #declared = new Map<string, Declared>()
  readonly #ready = new Set<string>()
  readonly #log: MongoOptions['log']
  readonly #stopSweeping: () => void
  #closing: Promise<void> | undefined

  constructor(client: MongoClient, db: Db, log: MongoOptions['log']) {
    this.#client = client
    this.#db = db
    this.#log = log
    this.#stopSweeping = startSweeping(() => this.sweep(), log)
  }

  collection<T extends Document>(name: string, spec: CollectionSpec<T>): Collection<T> {
    const known = this.#declared.get(name)
    if (known) return known.handle as unknown as Collection<T>
    const handle = new MongoCollection<Document>(this.#db.collection<MongoRow>(name), spec)
    this.#declared.set(name, { spec, handle })
    return handle as unknown as Collection<T>
  }

  async ready(): Promise<void> {
    const added = [...this.#declared].filter(([name]) => !this.#ready.has(name))
    try {
      await Promise.all(added.map(([name, { spec }]) => applyIndexes(this.#db.collection(name), spec, this.#log)))
    } catch (error) {
      throw explain(error)
    }
    for (const [name] of added) this.#ready.add(name)
  }

  async sweep(now = new Date()): Promise<number> {
    let removed = 0
    for (const [name, { spec, handle }] of this.#declared) {
      if (spec.expires && this.#ready.has(name)) removed += await handle.deleteMany({ expiresAt: { $lte: now.toISOString() } })
    }
    return removed
  }

  close(): Promise<void> {
    this.#stopSweeping()
    return (this.#closing ??= this.#client.close())
  }
}
