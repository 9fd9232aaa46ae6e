import assert from 'node:assert/strict'
import { join } from 'node:path'
import { collection, type CollectionSpec, type Document, type Sort, type Store } from '../../../core/store/collection.js'
import type { After } from '../../../core/store/page.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { connect } from '../../../core/store/sqlite/connection.js'
import type { Database, Statement } from '../../../core/store/sqlite/driver.js'
import { count, search, select, Statements } from '../../../core/store/sqlite/read.js'
import { readMeta } from '../../../core/store/sqlite/schema.js'
import { createTable, defineTable } from '../../../core/store/sqlite/table.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'

interface Row extends Document {
  n?: number | number[]
  name?: string
  group?: string
  inner?: { code: string }
  createdAt?: string
  expiresAt?: string
}

const total = 100_000
const owner = { tenant: null, userId: 'u1' }
const spec = collection.user<Row>({
  indexes: [
    { fields: { n: 1 } },
    { fields: { group: 1, name: -1 } },
    { fields: { 'inner.code': 1 }, unique: true, sparse: true, acrossOwners: true },
  ],
  expires: true,
})

/** Keeps the text of every statement that runs. */
class Recording extends Statements {
  readonly texts: string[] = []

  override get(sql: string): Statement {
    this.texts.push(sql)
    return super.get(sql)
  }
}

describe('indexes of the embedded store', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let file: string
  let store: Store

  before(async () => {
    directory = await temporaryDirectory()
    file = join(directory.path, 'store.db')
    store = await openSqliteStore({ file })
    const rows = await openCollection(store, 'test.many', spec)
    for (let start = 0; start < total; start += 5000) {
      const batch = Array.from({ length: 5000 }, (_, index): Row => {
        const n = start + index
        const digits = String(n).padStart(6, '0')
        return {
          id: `row${digits}`,
          n,
          name: `name${digits}`,
          group: `g${String(n % 1000)}`,
          inner: { code: `c${digits}` },
          createdAt: `t${digits}`,
          expiresAt: '2999',
        }
      })
      await rows.for(owner).insertMany(batch)
    }
  })
  after(async () => {
    await store.close()
    await directory.remove()
  })

  describe('over 100,000 documents', () => {
    let db: Database

    before(() => {
      db = connect(file)
    })
    after(() => db.close())

    const cases: [what: string, filter: Record<string, unknown>, sort: Sort | undefined, matches: number, after?: After][] = [
      ['an id', { id: 'row000007', ...owner }, undefined, 1],
      ['a list of ids', { id: { $in: ['row000007', 'row000008'] } }, undefined, 2],
      ['a number', { n: 500, ...owner }, undefined, 1],
      ['a range', { n: { $gte: 500, $lt: 510 }, ...owner }, undefined, 10],
      ['a short list', { n: { $in: [1, 2, 3] }, ...owner }, undefined, 3],
      ['a long list', { n: { $in: Array.from({ length: 100 }, (_, index) => index) }, ...owner }, undefined, 100],
      ['two fields', { group: 'g7', name: 'name000007', ...owner }, undefined, 1],
      ['a field, in the order of the next', { group: 'g7', ...owner }, { name: -1 }, 100],
      ['an optional field across owners', { 'inner.code': 'c000500' }, undefined, 1],
      [
        'a choice of fields',
        {
          $or: [
            { n: 3, ...owner },
            { group: 'g5', name: 'name000005', ...owner },
          ],
        },
        undefined,
        2,
      ],
      ['what has expired', { expiresAt: { $lte: '2000' } }, undefined, 0],
      ['an owner, newest first', owner, { createdAt: -1, id: -1 }, total],
      ['a page from the middle', owner, { createdAt: -1, id: -1 }, total, { value: 't050000', id: 'row050000' }],
    ]
    for (const [what, filter, sort, matches, after] of cases) {
      it(`${what} is found by an index`, () => {
        const statements = new Recording(db)
        const matching = search(createTable(defineTable('test.many', spec)), filter)
        const found = select(statements, matching, { sort, limit: 100, after })
        assert.equal(found.length, Math.min(matches, 100))
        if (after) assert.equal(found[0]?.document.id, 'row049999')
        assert.equal(count(statements, matching), matches)
        assert.ok(statements.texts.length >= 2)
        for (const text of statements.texts) {
          const parameters = Array.from(text.matchAll(/\?/g), () => null)
          const plan = db
            .prepare(`EXPLAIN QUERY PLAN ${text}`)
            .all(...parameters)
            .map(({ detail }) => String(detail))
          assert.ok(
            plan.some(step => /^SEARCH "?c:test\.many"? USING/.test(step)),
            plan.join('\n'),
          )
          const scans = plan.filter(step => step.startsWith('SCAN') && !/json_each|CONSTANT ROW/.test(step))
          assert.deepEqual(scans, [], text)
          assert.ok(!sort || !plan.some(step => step.includes('TEMP B-TREE')), plan.join('\n'))
        }
      })
    }

    it("a list of an owner's ids is read by the ids, not by what the owner has", () => {
      const statements = new Recording(db)
      const ids = Array.from({ length: 40 }, (_, index) => `row${String(index).padStart(6, '0')}`)
      const matching = search(createTable(defineTable('test.many', spec)), { id: { $in: ids }, ...owner })
      assert.equal(select(statements, matching, { limit: 100 }).length, 40)
      const [text = ''] = statements.texts
      const plan = db.prepare(`EXPLAIN QUERY PLAN ${text}`).all(...Array.from(text.matchAll(/\?/g), () => null))
      assert.match(String(plan[0]?.detail), /USING INDEX sqlite_autoindex_\S+ \(id=\?\)/)
    })

    it('a filter without an index does scan, and takes many times longer', async () => {
      const rows = (await openCollection(store, 'test.many', spec)).for(owner)
      const time = async (filter: Record<string, unknown>): Promise<number> => {
        const start = process.hrtime.bigint()
        assert.equal((await rows.find(filter)).length, 1)
        return Number(process.hrtime.bigint() - start)
      }
      // The least of several: whatever else the machine does only makes one take longer.
      const best = async (filter: Record<string, unknown>): Promise<number> => {
        let least = Infinity
        for (let n = 0; n < 10; n++) least = Math.min(least, await time(filter))
        return least
      }
      const indexed = await best({ n: 77_777 })
      const scanned = await best({ name: 'name077777' })
      assert.ok(scanned > 20 * indexed, `${String(scanned)} ns against ${String(indexed)} ns`)
    })
  })

  it('a list in one document makes the field exact again by the filter, also after a restart', async () => {
    const path = join(directory.path, 'lists.db')
    const plain = collection.global<Row>({ indexes: [{ fields: { n: 1 } }] })
    let lists = await openSqliteStore({ file: path })
    let rows = await openCollection(lists, 'test.lists', plain)
    await rows.insertMany([
      { id: 'a', n: 1 },
      { id: 'b', n: 2 },
    ])
    assert.deepEqual(
      (await rows.find({ n: 1 })).map(({ id }) => id),
      ['a'],
    )
    await rows.updateOne({ id: 'b' }, { $set: { n: [3, 1] } })
    assert.deepEqual(
      (await rows.find({ n: 1 }, { sort: { id: 1 } })).map(({ id }) => id),
      ['a', 'b'],
    )
    await lists.close()
    lists = await openSqliteStore({ file: path })
    rows = await openCollection(lists, 'test.lists', plain)
    assert.deepEqual(
      (await rows.find({ n: 1 }, { sort: { id: 1 } })).map(({ id }) => id),
      ['a', 'b'],
    )
    assert.equal(await rows.deleteMany({ n: 1 }), 2)
    await lists.close()
  })

  describe('that change between two starts', () => {
    const reopen = async (path: string, changed: CollectionSpec<Row, 'global'>): Promise<string[]> => {
      const again = await openSqliteStore({ file: path })
      try {
        await openCollection(again, 'test.rows', changed)
        const db = connect(path)
        const names = db.prepare(`SELECT name FROM sqlite_master WHERE type='index' AND sql IS NOT NULL ORDER BY name`).all()
        assert.ok(readMeta(db).has('test.rows'))
        db.close()
        return names.map(({ name }) => String(name))
      } finally {
        await again.close()
      }
    }

    it('are made and dropped', async () => {
      const path = join(directory.path, 'changing.db')
      assert.deepEqual(await reopen(path, collection.global({ indexes: [{ fields: { n: 1 } }] })), ['i:test.rows:n'])
      assert.deepEqual(await reopen(path, collection.global({ indexes: [{ fields: { n: 1 }, unique: true }, { fields: { name: -1 } }] })), [
        'i:test.rows:-name',
        'u:test.rows:n',
      ])
      assert.deepEqual(await reopen(path, collection.global()), [])
    })

    it('and would be unique over duplicates stop the start with an error that says so', async () => {
      const path = join(directory.path, 'duplicates.db')
      const first = await openSqliteStore({ file: path })
      const rows = await openCollection(first, 'test.rows', collection.global<Row>())
      await rows.insertMany([
        { id: 'a', n: 1 },
        { id: 'b', n: 1 },
      ])
      await first.close()
      await assert.rejects(
        reopen(path, collection.global({ indexes: [{ fields: { n: 1 }, unique: true }] })),
        /test\.rows holds documents with the same n/,
      )
      assert.deepEqual(await reopen(path, collection.global({ indexes: [{ fields: { n: 1 } }] })), ['i:test.rows:n'])
    })
  })

  it('of a field that is no plain name are refused at start', async () => {
    const other = await openSqliteStore({ file: join(directory.path, 'other.db') })
    const odd = collection.global<Row>({ indexes: [{ fields: { "a' OR 1": 1 } }] })
    await assert.rejects(openCollection(other, 'test.odd', odd), /cannot be indexed/)
    await other.close()
  })
})
