import { chmodSync, closeSync, mkdirSync, openSync } from 'node:fs'
import { dirname } from 'node:path'
import { StartError } from '../errors.js'
import type { Log } from '../log.js'
import type { Collection, CollectionSpec, Document, Store } from './collection.js'
import { Aggregations } from './sqlite/aggregate.js'
import { createTexts, DocumentCache } from './sqlite/cache.js'
import { SqliteCollection, type Engine } from './sqlite/collection.js'
import { connect } from './sqlite/connection.js'
import type { Database } from './sqlite/driver.js'
import { explain } from './sqlite/errors.js'
import { lockStore } from './sqlite/lock.js'
import { WriteQueue } from './sqlite/queue.js'
import { Statements } from './sqlite/read.js'
import { applySchema } from './sqlite/schema.js'
import { createTable, defineTable, type Table, type TableDefinition } from './sqlite/table.js'
import { StoreThread } from './sqlite/thread.js'
import { startSweeping } from './sweep.js'

export interface SqliteOptions {
  /** The database file; its directory is made when missing. */
  file: string
  log?: Pick<Log, 'warn'> | undefined
  /** The store refuses to grow beyond it. Default: as far as the disk goes. */
  maxBytes?: number | undefined
}

interface Declared {
  spec: CollectionSpec<Document>
  definition: TableDefinition
  handle: SqliteCollection<Document>
  table: Table
}

const sweepChunk = 1000

/**
 * Opens the embedded store. Throws when another process holds it (naming that process), and when the file is damaged.
 * Reads happen on the calling thread; writes share commits in a worker thread, which starts with the first write.
 */
// eslint-disable-next-line @typescript-eslint/require-await -- async so that its errors are rejections
export const openSqliteStore = async ({ file, log, maxBytes }: SqliteOptions): Promise<Store> => {
  mkdirSync(dirname(file), { recursive: true, mode: 0o700 })
  const unlock = lockStore(file)
  try {
    closeSync(openSync(file, 'a', 0o600))
    chmodSync(file, 0o600)
    return new SqliteStore(connect(file), { file, log, maxBytes }, unlock)
  } catch (error) {
    unlock()
    throw cannotOpen(file, error)
  }
}

const cannotOpen = (file: string, error: unknown): Error =>
  new StartError(`The store ${file} cannot be opened: ${(explain(error) as Error).message}`, { cause: error })

class SqliteStore implements Store {
  readonly engine = 'sqlite'
  readonly #db: Database
  readonly #options: SqliteOptions
  readonly #unlock: () => void
  readonly #declared = new Map<string, Declared>()
  /** Those whose tables exist. */
  readonly #tables = new Map<string, Table>()
  readonly #texts = createTexts()
  readonly #writer: StoreThread
  readonly #parts: Engine
  readonly #stopSweeping: () => void
  #closing: Promise<void> | undefined

  constructor(db: Database, options: SqliteOptions, unlock: () => void) {
    this.#db = db
    this.#options = options
    this.#unlock = unlock
    const { file, maxBytes } = options
    this.#writer = new StoreThread({ file, maxBytes }, this.#tables)
    const queue = new WriteQueue(this.#writer, changed => {
      for (const { collection, fields } of changed) for (const field of fields) this.#tables.get(collection)?.irregular.add(field)
    })
    this.#parts = {
      statements: new Statements(db),
      queue,
      aggregations: new Aggregations(new StoreThread({ file }, this.#tables)),
      closed: false,
    }
    this.#stopSweeping = startSweeping(() => this.sweep(), options.log)
  }

  collection<T extends Document>(name: string, spec: CollectionSpec<T>): Collection<T> {
    const known = this.#declared.get(name)
    if (known) return known.handle as unknown as Collection<T>
    const definition = defineTable(name, spec)
    const table = createTable(definition)
    const handle = new SqliteCollection<Document>(this.#parts, table, new DocumentCache(this.#texts, name))
    this.#declared.set(name, { spec, definition, handle, table })
    return handle as unknown as Collection<T>
  }

  // eslint-disable-next-line @typescript-eslint/require-await -- async so that its errors are rejections
  async ready(): Promise<void> {
    const added = [...this.#declared.values()].filter(({ definition }) => !this.#tables.has(definition.name))
    if (added.length === 0) return
    try {
      applySchema(
        this.#db,
        added.map(({ definition }) => definition),
      )
    } catch (error) {
      throw explain(error)
    }
    for (const { definition, handle, table } of added) {
      for (const field of definition.irregular) table.irregular.add(field)
      this.#tables.set(definition.name, table)
      handle.open()
    }
  }

  async sweep(now = new Date()): Promise<number> {
    let removed = 0
    for (const { spec, handle, definition } of this.#declared.values()) {
      if (!spec.expires || !this.#tables.has(definition.name)) continue
      const filter = { expiresAt: { $lte: now.toISOString() } }
      for (let count = sweepChunk; count === sweepChunk; removed += count) count = await handle.deleteSome(filter, sweepChunk)
    }
    return removed
  }

  close(): Promise<void> {
    return (this.#closing ??= this.#close())
  }

  /** A statement that the driver has not yet let go of would keep the last close from merging the log into the file. */
  #mergeLog(): void {
    try {
      this.#db.exec('PRAGMA wal_checkpoint(TRUNCATE)')
    } catch (error) {
      // On a full disk, for example. Nothing is lost: the next start reads the log.
      this.#options.log?.warn({ err: error }, 'The write-ahead log stays beside the store file')
    }
  }

  async #close(): Promise<void> {
    this.#stopSweeping()
    this.#parts.closed = true
    await this.#parts.queue.close()
    await Promise.all([this.#writer.close(), this.#parts.aggregations.close()])
    this.#mergeLog()
    this.#db.close()
    this.#unlock()
  }
}
