import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { collection, type Collection, type Document } from '../../core/store/collection.js'
import { openSqliteStore } from '../../core/store/sqlite.js'
import { connect } from '../../core/store/sqlite/connection.js'
import { openCollection } from '../support/store.js'

export interface StoreRatio {
  work: string
  /** Operations a second. */
  bare: number
  store: number
  /** `store` / `bare`: medians of interleaved runs. */
  ratio: number
}

interface Row extends Document {
  name: string
  n: number
  createdAt: string
}

const runs = 5
const row = (id: string): Row => ({ id, name: 'x'.repeat(100), n: 1, createdAt: '2026-01-01T00:00:00.000Z' })

/**
 * The embedded store through a user's handle against bare SQLite in the same process and with the same settings:
 * a prepared statement and JSON, each insertion its own commit. Writes are durable on both sides.
 */
export const measureStore = async (): Promise<StoreRatio[]> => {
  const directory = await mkdtemp(join(tmpdir(), 'agent-gateway-bench-'))
  const store = await openSqliteStore({ file: join(directory, 'store.db') })
  const handle = await openCollection(store, 'bench.rows', collection.user<Row>())
  const rows = handle.for({ tenant: null, userId: 'bench' })
  const db = connect(join(directory, 'bare.db'))
  db.exec("CREATE TABLE rows (id TEXT PRIMARY KEY, doc TEXT); CREATE INDEX created ON rows (doc->>'$.createdAt')")
  const insert = db.prepare('INSERT INTO rows VALUES (?,?)')
  const select = db.prepare('SELECT doc FROM rows WHERE id=?')
  const bareInsert = (id: string): void => void insert.run(id, JSON.stringify(row(id)))
  const bareRead = (id: string): unknown => JSON.parse(select.get(id)?.doc as string)
  try {
    bareInsert('read')
    await rows.insertOne(row('read'))
    return [
      await compare('insert, 1 in flight', 300, bareInsert, count => insertAll(rows, count, 1)),
      await compare('insert, 64 in flight', 2000, bareInsert, count => insertAll(rows, count, 64)),
      await compare(
        'read by id',
        50_000,
        () => bareRead('read'),
        count => readAll(rows, count),
      ),
    ]
  } finally {
    db.close()
    await store.close()
    await rm(directory, { recursive: true, force: true })
  }
}

let serial = 0
const nextId = (): string => `row${String(serial++)}`

const insertAll = async (rows: Collection<Row>, count: number, inFlight: number): Promise<void> => {
  let started = 0
  const writer = async (): Promise<void> => {
    while (started++ < count) await rows.insertOne(row(nextId()))
  }
  await Promise.all(Array.from({ length: inFlight }, writer))
}

const readAll = async (rows: Collection<Row>, count: number): Promise<void> => {
  for (let index = 0; index < count; index++) await rows.findOne({ id: 'read' })
}

const compare = async (
  work: string,
  count: number,
  bareOne: (id: string) => unknown,
  storeAll: (count: number) => Promise<void>,
): Promise<StoreRatio> => {
  const bareRates: number[] = []
  const storeRates: number[] = []
  for (let run = 0; run < runs; run++) {
    bareRates.push(
      await rate(count, () => {
        for (let index = 0; index < count; index++) bareOne(nextId())
      }),
    )
    storeRates.push(await rate(count, () => storeAll(count)))
  }
  const [bare, store] = [median(bareRates), median(storeRates)]
  return { work, bare, store, ratio: store / bare }
}

const rate = async (count: number, run: () => void | Promise<void>): Promise<number> => {
  const start = performance.now()
  await run()
  return (count * 1000) / (performance.now() - start)
}

const median = (values: number[]): number => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? 0
