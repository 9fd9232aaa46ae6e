import assert from 'node:assert/strict'
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { readFile, stat, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { GatewayError } from '../../../core/errors.js'
import { collection, type Document, type Store } from '../../../core/store/collection.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { WriteQueue } from '../../../core/store/sqlite/queue.js'
import { createTable, defineTable } from '../../../core/store/sqlite/table.js'
import { StoreThread } from '../../../core/store/sqlite/thread.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'

interface Row extends Document {
  n: number
  text?: string
}

const spec = collection.global<Row>({ indexes: [{ fields: { n: 1 } }] })
const isUnavailable = (error: unknown): boolean => error instanceof GatewayError && error.code === 'service_unavailable'

describe('the embedded store and faults', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let file: string
  let children: ChildProcessByStdio<null, Readable, null>[]
  let stores: Store[]

  const openStore = async (options: { maxBytes?: number } = {}): Promise<Store> => {
    const store = await openSqliteStore({ file, ...options })
    stores.push(store)
    return store
  }

  const startProcess = async (mode: string, round = 0): Promise<{ child: ChildProcessByStdio<null, Readable, null>; lines: string[] }> => {
    const program = fileURLToPath(new URL('../../fixtures/storeProcess.ts', import.meta.url))
    const child = spawn(process.execPath, ['--import', 'tsx', program, mode, file, String(round)], { stdio: ['ignore', 'pipe', 'inherit'] })
    children.push(child)
    const lines: string[] = []
    const reader = createInterface(child.stdout)
    reader.on('line', line => lines.push(line))
    await once(reader, 'line')
    return { child, lines }
  }

  const kill = async (child: ChildProcessByStdio<null, Readable, null>): Promise<void> => {
    child.kill('SIGKILL')
    if (child.stdout.readable) await once(child, 'close')
  }

  beforeEach(async () => {
    directory = await temporaryDirectory()
    file = join(directory.path, 'data', 'store.db')
    children = []
    stores = []
  })
  afterEach(async () => {
    for (const child of children) child.kill('SIGKILL')
    for (const store of stores) await store.close()
    await directory.remove()
  })

  it('loses no acknowledged write when its process is killed', async () => {
    const acknowledged = new Map<string, number>()
    for (let round = 0; round < 4; round++) {
      const { child, lines } = await startProcess('write', round)
      const enough = 400 + round * 137
      while (lines.length < enough) await once(child.stdout, 'data')
      await kill(child)
      for (const line of lines) {
        const [what, id = '', n] = line.split(' ')
        if (what === 'inserted' || what === 'updated') acknowledged.set(id, n === undefined ? -1 : Number(n))
      }
    }
    const rows = await openCollection(await openStore(), 'test.rows', spec)
    assert.ok(acknowledged.size > 500)
    for (const [id, n] of acknowledged) {
      const row = await rows.findOne({ id })
      assert.ok(row, `${id} is missing`)
      // The last acknowledgement may have been on its way when the process died.
      if (n !== -1) assert.equal(row.n, n)
    }
  })

  describe('a second process', () => {
    it('is refused with the name of the holder, and let in once that is killed', async () => {
      const { child } = await startProcess('hold')
      await assert.rejects(openStore(), new RegExp(`is in use by process ${String(child.pid)}, since 20.*: stop it first`))
      await assert.rejects(openStore(), /is in use by process/)
      await kill(child)
      const rows = await openCollection(await openStore(), 'test.rows', spec)
      await rows.insertOne({ id: 'a', n: 1 })
    })

    it('is refused within the same process, too, and after close it is not', async () => {
      const first = await openStore()
      await assert.rejects(openStore(), new RegExp(`is in use by process ${String(process.pid)}`))
      await first.close()
      await openStore()
    })
  })

  it('lets its process end without a close, with everything written', async () => {
    const { child } = await startProcess('leave')
    const [code] = (child.exitCode === null ? await once(child, 'exit') : [child.exitCode]) as [number]
    assert.equal(code, 0)
    const rows = await openCollection(await openStore(), 'test.rows', spec)
    assert.equal(await rows.count({}), 1)
  })

  it('keeps its files to its user', async () => {
    const rows = await openCollection(await openStore(), 'test.rows', spec)
    await rows.insertOne({ id: 'a', n: 1 })
    const mode = async (path: string): Promise<string> => ((await stat(path)).mode & 0o777).toString(8)
    assert.equal(await mode(join(directory.path, 'data')), '700')
    for (const name of ['', '-wal', '-shm', '.lock', '.holder']) assert.equal(await mode(file + name), '600', name)
  })

  describe('a damaged file', () => {
    it('that is no database is refused with what to do', async () => {
      await (await openStore()).close()
      await writeFile(file, 'not a database, certainly not one'.repeat(100))
      await assert.rejects(openStore(), /store\.db cannot be opened: The store file is damaged: .*restore the data directory from a backup/)
      await assert.rejects(openStore(), /is damaged/)
      assert.match(await readFile(file, 'utf8'), /^not a database/)
    })

    it('with damaged pages answers with an error, not with wrong documents', async () => {
      const store = await openStore()
      const rows = await openCollection(store, 'test.rows', spec)
      await rows.insertMany(Array.from({ length: 2000 }, (_, n) => ({ id: `r${String(n)}`, n, text: 'x'.repeat(200) })))
      await store.close()
      const bytes = await readFile(file)
      assert.ok(bytes.length > 400_000, 'the log is merged into the file')
      await writeFile(file, bytes.fill(0x5a, 40_960))
      const damaged = await openCollection(await openStore(), 'test.rows', spec)
      await assert.rejects(damaged.find({}, { limit: 5000 }), error => isUnavailable(error) && /damaged/.test((error as Error).message))
      await assert.rejects(damaged.updateMany({}, { $set: { n: 0 } }), isUnavailable)
    })
  })

  describe('a full disk', () => {
    it('refuses what does not fit, keeps everything else, and goes on when there is space', async () => {
      const rows = await openCollection(await openStore({ maxBytes: 1024 * 1024 }), 'test.rows', spec)
      const text = 'x'.repeat(50_000)
      let written = 0
      await assert.rejects(
        async () => {
          for (; ; written++) await rows.insertOne({ id: `r${String(written)}`, n: written, text })
        },
        error => isUnavailable(error) && /disk or its size limit is full/.test((error as Error).message),
      )
      assert.ok(written > 5)
      assert.equal(await rows.count({}), written)
      assert.equal((await rows.findOne({ id: 'r0' }))?.text, text)
      assert.equal(await rows.deleteMany({ n: { $lt: 5 } }), 5)
      await rows.insertOne({ id: 'again', n: -1, text })
      assert.equal((await rows.findOne({ id: 'again' }))?.n, -1)
    })

    it('refuses one write too large alone, not those that share its commit', async () => {
      const rows = await openCollection(await openStore({ maxBytes: 1024 * 1024 }), 'test.rows', spec)
      const results = await Promise.allSettled([
        rows.insertOne({ id: 'a', n: 1 }),
        rows.insertOne({ id: 'huge', n: 2, text: 'x'.repeat(2_000_000) }),
        rows.insertOne({ id: 'b', n: 3 }),
      ])
      assert.deepEqual(
        results.map(({ status }) => status),
        ['fulfilled', 'rejected', 'fulfilled'],
      )
      assert.deepEqual(
        (await rows.find({}, { sort: { n: 1 } })).map(({ id }) => id),
        ['a', 'b'],
      )
    })
  })

  it('refuses writes beyond its queue, and keeps the others', async () => {
    const rows = await openCollection(await openStore(), 'test.rows', spec)
    const results = await Promise.allSettled(Array.from({ length: 10_500 }, (_, n) => rows.insertOne({ id: `r${String(n)}`, n })))
    const refused = results.filter(result => result.status === 'rejected')
    assert.equal(refused.length, 500)
    assert.ok(refused.every(({ reason }) => isUnavailable(reason) && /Too many writes are waiting/.test((reason as Error).message)))
    assert.equal(await rows.count({}), 10_000)
    await rows.insertOne({ id: 'after', n: 0 })
    assert.equal((await rows.findOne({ id: 'after' }))?.n, 0)
  })

  it('starts another thread for the next write when one has ended', async () => {
    await openCollection(await openStore(), 'test.rows', spec)
    const table = createTable(defineTable('test.rows', spec))
    const thread = new StoreThread({ file }, new Map([['test.rows', table]]))
    const queue = new WriteQueue(thread, () => undefined)
    let unsettled = 0
    const insert = (id: string): Promise<unknown> => {
      unsettled++
      return queue.submit(table, { kind: 'insert', documents: [{ id, text: JSON.stringify({ id }) }] }, 10, () => unsettled--)
    }
    await insert('a')
    // Only while it is idle: ended inside a call of the native module, a thread takes the process with it.
    await thread.terminate()
    await insert('b')
    await thread.terminate()
    await Promise.all([insert('c'), insert('d')])
    assert.equal(unsettled, 0)
    await queue.close()
    await thread.close()
  })

  it('finishes writes under way when it closes, and refuses everything after', async () => {
    const store = await openStore()
    const rows = await openCollection(store, 'test.rows', spec)
    const writes = Promise.all(Array.from({ length: 500 }, (_, n) => rows.insertOne({ id: `r${String(n)}`, n })))
    await store.close()
    await writes
    await assert.rejects(rows.insertOne({ id: 'late', n: 1 }), /The store is closed/)
    await assert.rejects(rows.findOne({ id: 'r1' }), /The store is closed/)
    await assert.rejects(rows.find({}), /The store is closed/)
    const again = await openCollection(await openStore(), 'test.rows', spec)
    assert.equal(await again.count({}), 500)
  })

  it('cannot be used before its tables exist', async () => {
    const store = await openStore()
    const rows = store.collection('test.early', spec)
    await assert.rejects(rows.findOne({ id: 'a' }), /call ready\(\) after declaring it/)
    await assert.rejects(rows.insertOne({ id: 'a', n: 1 }), /call ready\(\) after declaring it/)
  })
})
