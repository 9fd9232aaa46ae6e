import { parentPort, workerData } from 'node:worker_threads'
import { DuplicateKey } from '../collection.js'
import { GatewayError } from '../../errors.js'
import { connect } from './connection.js'
import { explain, isBusy } from './errors.js'
import { loadMingo } from './mingo.js'
import { search, select, Statements } from './read.js'
import { createTable, type Table, type TableDefinition } from './table.js'
import { unlimited, Writer, type Write, type WriteResult } from './write.js'
import type { JsonObject } from '../json.js'

/** What the worker thread is started with. */
export interface WorkerSettings {
  file: string
  /** The store refuses to grow beyond it. */
  maxBytes?: number | undefined
}

/** From the main thread: collections declared since the last message, then work. */
export interface Batch {
  define: TableDefinition[]
  writes: { collection: string; write: Write }[]
}

export interface Aggregation {
  define: TableDefinition[]
  aggregate: { collection: string; filter: JsonObject; pipeline: JsonObject[] }
}

/** An error on its way to the main thread. */
export interface Failure {
  error:
    { kind: 'duplicate'; fields: string[] } | { kind: 'unavailable' | 'invalid' | 'unknown'; message: string; stack?: string | undefined }
}

export interface BatchAnswer {
  results: (WriteResult | Failure)[]
  /** Every indexed field that is known to hold arrays or objects, of the collections where that changed. */
  irregular: { collection: string; fields: string[] }[]
}

const { file, maxBytes } = workerData as WorkerSettings
const db = connect(file)
if (maxBytes !== undefined) {
  const { page_size: pageSize } = db.prepare('PRAGMA page_size').get() as { page_size: number }
  db.exec(`PRAGMA max_page_count=${String(Math.floor(maxBytes / pageSize))}`)
}
const tables = new Map<string, Table>()
/** Tables with a newly irregular field that is not on disk yet, and those that the main thread does not know of yet. */
const unrecorded = new Set<Table>()
const unannounced = new Set<Table>()
const statements = new Statements(db)
const writer = new Writer(statements, table => unrecorded.add(table))

const tableOf = (collection: string): Table => {
  const table = tables.get(collection)
  if (!table) throw new Error(`The collection ${collection} is not ready: call ready() after declaring it`)
  return table
}

const fail = (error: unknown, table?: Table): Failure => {
  const explained = explain(error, table)
  if (explained instanceof DuplicateKey) return { error: { kind: 'duplicate', fields: explained.fields } }
  const { message } = explained instanceof Error ? explained : new Error(String(explained))
  const { stack } = error instanceof Error ? error : new Error(String(error))
  const kind = explained instanceof GatewayError ? 'unavailable' : explained instanceof TypeError ? 'invalid' : 'unknown'
  return { error: { kind, message, stack } }
}

/** One write inside the open transaction: undone alone when it fails. Throws only when the transaction itself is gone. */
const writeOne = ({ collection, write }: Batch['writes'][number]): WriteResult | Failure => {
  const table = tables.get(collection)
  db.exec('SAVEPOINT one')
  try {
    const result = writer.run(tableOf(collection), write)
    db.exec('RELEASE one')
    return result
  } catch (error) {
    if (!db.isTransaction) throw error
    db.exec('ROLLBACK TO one; RELEASE one')
    return fail(error, table)
  }
}

const commit = (writes: Batch['writes']): (WriteResult | Failure)[] => {
  try {
    db.exec('BEGIN IMMEDIATE')
    const results = writes.map(writeOne)
    for (const table of unrecorded) writer.recordIrregular(table)
    db.exec('COMMIT')
    for (const table of unrecorded) unannounced.add(table)
    unrecorded.clear()
    return results
  } catch (error) {
    if (db.isTransaction) db.exec('ROLLBACK')
    // One write may have been too much for the disk: the others get a transaction each.
    if (writes.length > 1 && !isBusy(error)) return writes.flatMap(write => commit([write]))
    return writes.map(() => fail(error))
  }
}

const aggregate = async ({ collection, filter, pipeline }: Aggregation['aggregate']): Promise<string> => {
  const mingo = await loadMingo()
  const matching = search(tableOf(collection), filter)
  const test = matching.residual ? { test: mingo.matcher(matching.residual) } : {}
  const documents = select(statements, { ...matching, ...test }, { limit: unlimited }).map(({ document }) => document)
  return JSON.stringify(mingo.aggregate(documents, pipeline))
}

const define = (definitions: TableDefinition[]): void => {
  for (const definition of definitions) tables.set(definition.name, createTable(definition))
}

const answer = async (message: Batch | Aggregation): Promise<unknown> => {
  define(message.define)
  if ('aggregate' in message) {
    try {
      return { text: await aggregate(message.aggregate) }
    } catch (error) {
      return fail(error)
    }
  }
  if (message.writes.some(({ write }) => write.kind !== 'insert')) writer.mingo ??= await loadMingo()
  const results = commit(message.writes)
  const irregular = [...unannounced].map(table => ({ collection: table.name, fields: [...table.irregular] }))
  unannounced.clear()
  return { results, irregular } satisfies BatchAnswer
}

const port = parentPort
port?.on('message', (message: Batch | Aggregation | 'close') => {
  if (message === 'close') {
    db.close()
    port.close()
  } else
    void answer(message).then(result => {
      port.postMessage(result)
    })
})
