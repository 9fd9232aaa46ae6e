import assert from 'node:assert/strict'
import { GatewayError } from '../../../core/errors.js'
import {
  collection,
  DuplicateKey,
  type Collection,
  type Document,
  type Owner,
  type ScopedHandle,
  type Store,
} from '../../../core/store/collection.js'
import { openCollection } from '../../support/store.js'

interface Row extends Document {
  name?: string | null
  n?: unknown
  tags?: unknown[]
  inner?: unknown
  state?: string
  createdAt?: string
  expiresAt?: string
  email?: string | null
}

export interface Features {
  /**
   * The server is a whole MongoDB. FerretDB reads first and writes then, has no partial indexes, unique ones that take
   * null for a value, or field paths in expressions, misses some operators and does not say which index was broken.
   */
  complete: boolean
}

/** What every engine promises. `open` opens an empty store; `features` is known once `open` has run. */
export const describeContract = (engine: string, open: () => Promise<Store>, features: () => Features): void => {
  describe(`the store's contract on ${engine}`, () => {
    let store: Store
    let rows: Collection<Row>
    let serial = 0
    const needsAll = (test: Mocha.Context): void => {
      if (!features().complete) test.skip()
    }
    const fresh = (): string => `contract.rows${String(serial++)}`
    const ids = (found: Document[]): string[] => found.map(({ id }) => id)

    before(async () => {
      store = await open()
    })
    after(() => store.close())
    beforeEach(async () => {
      rows = await openCollection(
        store,
        fresh(),
        collection.global<Row>({ indexes: [{ fields: { n: 1 } }, { fields: { name: 1 }, unique: true, sparse: true }] }),
      )
    })

    describe('documents', () => {
      it('come back as they were written', async () => {
        const row = {
          id: 'a',
          name: 'Ä "quoted" \u{1f600}',
          n: 1.5,
          tags: [1, 'x', null, { y: [] }],
          inner: { deep: { list: [true, false] }, none: null },
        }
        await rows.insertOne(row)
        assert.deepEqual(await rows.findOne({ id: 'a' }), row)
        assert.deepEqual(await rows.find({ n: 1.5 }), [row])
      })

      it('may hold text with NUL and lone surrogates beside others', async () => {
        await rows.insertMany([
          { id: 'a', n: 'x\0y' },
          { id: 'b', n: 'x' },
        ])
        assert.deepEqual(ids(await rows.find({ n: 'x\0y' })), ['a'])
        assert.deepEqual(ids(await rows.find({ n: 'x' })), ['b'])
      })

      it('are copies: changing one changes nothing stored', async () => {
        await rows.insertOne({ id: 'a', inner: { x: 1 } })
        const first = await rows.findOne({ id: 'a' })
        assert.ok(first)
        first.inner = 'changed'
        assert.deepEqual(await rows.findOne({ id: 'a' }), { id: 'a', inner: { x: 1 } })
      })

      it('keep their id for themselves', async function () {
        needsAll(this)
        await rows.insertOne({ id: 'a' })
        await assert.rejects(rows.insertOne({ id: 'a' }), error => error instanceof DuplicateKey && error.fields.join() === 'id')
      })

      for (const id of ['', 'a\0b', 'x'.repeat(600), 5 as unknown as string]) {
        it(`are refused with the id ${JSON.stringify(id).slice(0, 20)}`, async () => {
          await assert.rejects(rows.insertOne({ id }), /A document's id is a string/)
        })
      }

      it('are found by an id with a NUL only when there is one', async () => {
        await rows.insertOne({ id: 'a' })
        assert.equal(await rows.findOne({ id: 'a\0b' }), null)
      })
    })

    describe('filters', () => {
      const documents: Row[] = [
        { id: 'one', n: 1 },
        { id: 'text', n: '1' },
        { id: 'true', n: true },
        { id: 'null', n: null },
        { id: 'missing' },
        { id: 'list', n: [1, 'x', null] },
        { id: 'object', n: { x: 1 } },
        { id: 'two', n: 2, inner: { deep: 'x' } },
        { id: 'objects', inner: [{ deep: 'x' }, { deep: 'y' }] },
      ]
      const cases: [string, Record<string, unknown>, string[]][] = [
        ['a number equals neither its text nor true', { n: 1 }, ['list', 'one']],
        ['a text equals no number', { n: '1' }, ['text']],
        ['true equals no number', { n: true }, ['true']],
        ['null matches what is missing, and a list with null', { n: null }, ['list', 'missing', 'null', 'objects']],
        ['$ne null leaves out what is missing', { n: { $ne: null } }, ['object', 'one', 'text', 'true', 'two']],
        ['$in', { n: { $in: [2, '1', true] } }, ['text', 'true', 'two']],
        ['$in with null', { n: { $in: [2, null] } }, ['list', 'missing', 'null', 'objects', 'two']],
        ['$in with nothing', { n: { $in: [] } }, []],
        ['$nin', { n: { $nin: [1, '1', null] } }, ['object', 'true', 'two']],
        ['$exists is true for null', { n: { $exists: true } }, ['list', 'null', 'object', 'one', 'text', 'true', 'two']],
        ['$exists false', { n: { $exists: false } }, ['missing', 'objects']],
        ['a range of numbers holds numbers alone', { n: { $gt: 0 } }, ['list', 'one', 'two']],
        ['a range with both ends', { n: { $gte: 1, $lt: 2 } }, ['list', 'one']],
        ['a range of text holds text alone', { n: { $gte: '' } }, ['list', 'text']],
        ['$lte', { n: { $lte: 1 } }, ['list', 'one']],
        ['an object equals as a whole', { n: { x: 1 } }, ['object']],
        ['a dotted path', { 'n.x': 1 }, ['object']],
        ['a dotted path through a list', { 'inner.deep': 'x' }, ['objects', 'two']],
        ['fields are joined by and', { n: 2, 'inner.deep': 'x' }, ['two']],
        ['$or', { $or: [{ n: 2 }, { id: 'text' }] }, ['text', 'two']],
        ['$and', { $and: [{ n: { $gte: 1 } }, { n: { $lte: 1 } }] }, ['list', 'one']],
        ['$nor', { $nor: [{ n: 1 }, { n: null }, { n: '1' }] }, ['object', 'true', 'two']],
        ['$not', { n: { $not: { $gte: 2 } }, id: { $in: ['one', 'two'] } }, ['one']],
        ['$regex', { id: { $regex: '^t' } }, ['text', 'true', 'two']],
        ['$size', { n: { $size: 3 } }, ['list']],
        ['$elemMatch over objects', { inner: { $elemMatch: { deep: 'y' } } }, ['objects']],
        ['an id in a list', { id: { $in: ['one', 'two', 'none'] } }, ['one', 'two']],
        ['an id range', { id: { $gt: 'text', $lt: 'two' } }, ['true']],
        ['an id that is no text', { id: 1 }, []],
      ]
      for (const [what, filter, expected] of cases) {
        it(what, async function () {
          if (what.startsWith('$elemMatch')) needsAll(this)
          await rows.insertMany(documents)
          assert.deepEqual(ids(await rows.find(filter)).sort(), expected)
          assert.equal(await rows.count(filter), expected.length)
        })
      }

      it('take a list of thousands', async () => {
        await rows.insertMany(documents)
        assert.deepEqual(
          ids(await rows.find({ n: { $in: [...Array.from({ length: 3000 }, (_, index) => index + 2), '1', null] } })).sort(),
          ['list', 'missing', 'null', 'objects', 'text', 'two'],
        )
      })

      for (const [what, filter] of [
        ['undefined', { n: undefined }],
        ['undefined in a list', { n: { $in: [undefined] } }],
        ['not a number', { n: Number.NaN }],
        ['a date', { n: new Date() }],
        ['$where', { $where: 'true' }],
        ['$expr', { $expr: { $eq: [1, 1] } }],
        ['an unknown operator', { n: { $near: 1 } }],
        ['a path into the prototype', { '__proto__.x': 1 }],
      ] as [string, Record<string, unknown>][]) {
        it(`refuse ${what}`, async () => {
          await rows.insertOne({ id: 'a' })
          await assert.rejects(rows.find(filter), TypeError)
          await assert.rejects(rows.deleteMany(filter), TypeError)
          assert.equal(await rows.count({}), 1)
        })
      }
    })

    describe('sorting', () => {
      it('orders null and missing before numbers before text before booleans', async () => {
        await rows.insertMany([
          { id: 'a', n: false },
          { id: 'b', n: 'x' },
          { id: 'c', n: 10 },
          { id: 'd', n: 9 },
          { id: 'e', n: null },
          { id: 'f', n: 'B' },
        ])
        assert.deepEqual(ids(await rows.find({}, { sort: { n: 1 } })), ['e', 'd', 'c', 'f', 'b', 'a'])
        assert.deepEqual(ids(await rows.find({}, { sort: { n: -1 } })), ['a', 'b', 'f', 'c', 'd', 'e'])
      })

      it('takes a list by its smallest element, or by its largest when descending', async () => {
        await rows.insertMany([
          { id: 'a', n: 2 },
          { id: 'b', n: [1, 5] },
          { id: 'c', n: 3 },
        ])
        assert.deepEqual(ids(await rows.find({}, { sort: { n: 1 } })), ['b', 'a', 'c'])
        assert.deepEqual(ids(await rows.find({}, { sort: { n: -1 } })), ['b', 'c', 'a'])
      })

      it('takes several fields, a skip and a limit', async () => {
        await rows.insertMany(Array.from({ length: 20 }, (_, index) => ({ id: `r${String(index).padStart(2, '0')}`, n: index % 3 })))
        assert.deepEqual(ids(await rows.find({}, { sort: { n: -1, id: 1 }, skip: 5, limit: 3 })), ['r17', 'r01', 'r04'])
        assert.deepEqual(ids(await rows.find({ n: { $mod: [2, 1] } }, { sort: { id: -1 }, skip: 1, limit: 2 })), ['r16', 'r13'])
        assert.equal((await rows.findOne({ n: 2 }, { sort: { id: -1 } }))?.id, 'r17')
        assert.deepEqual(await rows.find({}, { limit: 0 }), [])
      })

      it('returns at most 1,000 documents unless told otherwise', async () => {
        await rows.insertMany(Array.from({ length: 1100 }, (_, index) => ({ id: `r${String(index)}` })))
        assert.equal((await rows.find({})).length, 1000)
        assert.equal((await rows.find({}, { limit: 1050 })).length, 1050)
      })
    })

    describe('updates', () => {
      it('apply every operator', async () => {
        await rows.insertOne({ id: 'a', n: 1, name: 'x', tags: [3, 1], inner: { x: 1, y: 2 } })
        const change = (update: Record<string, Record<string, unknown>>): Promise<Row | null> => rows.findOneAndUpdate({ id: 'a' }, update)
        assert.deepEqual(await change({ $set: { 'inner.z': 3 }, $unset: { 'inner.y': '' }, $inc: { n: 2 } }), {
          id: 'a',
          n: 3,
          name: 'x',
          tags: [3, 1],
          inner: { x: 1, z: 3 },
        })
        assert.deepEqual((await change({ $push: { tags: { $each: [7, 8] } } }))?.tags, [3, 1, 7, 8])
        assert.deepEqual((await change({ $addToSet: { tags: 7 } }))?.tags, [3, 1, 7, 8])
        assert.deepEqual((await change({ $pull: { tags: 8 } }))?.tags, [3, 1, 7])
        assert.equal((await change({ $mul: { n: 2 } }))?.n, 6)
        assert.equal((await change({ $min: { n: 4 } }))?.n, 4)
        assert.equal((await change({ $max: { n: 9 } }))?.n, 9)
        assert.deepEqual(await change({ $rename: { name: 'state' } }), {
          id: 'a',
          n: 9,
          state: 'x',
          tags: [3, 1, 7],
          inner: { x: 1, z: 3 },
        })
        assert.deepEqual(await rows.findOne({ id: 'a' }), { id: 'a', n: 9, state: 'x', tags: [3, 1, 7], inner: { x: 1, z: 3 } })
      })

      it('cut a list', async function () {
        needsAll(this)
        await rows.insertOne({ id: 'a', tags: [3, 1] })
        const changed = await rows.findOneAndUpdate({ id: 'a' }, { $push: { tags: { $each: [7, 8], $slice: -3 } } })
        assert.deepEqual(changed?.tags, [1, 7, 8])
        await rows.updateOne({ id: 'a' }, { $pull: { tags: { $gte: 7 } } })
        assert.deepEqual((await rows.findOne({ id: 'a' }))?.tags, [1])
      })

      it('say whether a document matched, even when nothing changed', async () => {
        await rows.insertOne({ id: 'a', n: 1 })
        assert.equal(await rows.updateOne({ id: 'a' }, { $set: { n: 1 } }), true)
        assert.equal(await rows.updateOne({ id: 'a', n: 2 }, { $set: { n: 3 } }), false)
        assert.equal(await rows.updateOne({ id: 'none' }, { $set: { n: 3 } }), false)
      })

      it('of many say how many', async () => {
        await rows.insertMany([
          { id: 'a', n: 1 },
          { id: 'b', n: 2 },
          { id: 'c', n: 3 },
        ])
        assert.equal(await rows.updateMany({ n: { $gte: 2 } }, { $inc: { n: 10 } }), 2)
        assert.deepEqual(
          (await rows.find({}, { sort: { id: 1 } })).map(({ n }) => n),
          [1, 12, 13],
        )
        assert.equal(await rows.deleteMany({ n: { $gt: 1 } }), 2)
        assert.equal(await rows.count({}), 1)
      })

      it('return the document before or after, by the sort, or null', async () => {
        await rows.insertMany([
          { id: 'a', n: 1, state: 'q' },
          { id: 'b', n: 2, state: 'q' },
        ])
        assert.deepEqual(await rows.findOneAndUpdate({ state: 'q' }, { $set: { state: 'r' } }, { sort: { n: -1 } }), {
          id: 'b',
          n: 2,
          state: 'r',
        })
        assert.deepEqual(await rows.findOneAndUpdate({ state: 'q' }, { $set: { state: 'r' } }, { returns: 'before' }), {
          id: 'a',
          n: 1,
          state: 'q',
        })
        assert.equal(await rows.findOneAndUpdate({ state: 'q' }, { $set: { state: 'r' } }), null)
      })

      it('are seen by reads by id and by filter once they resolve', async () => {
        await rows.insertOne({ id: 'a', n: 0 })
        for (let n = 1; n <= 20; n++) {
          assert.equal((await rows.findOne({ id: 'a' }))?.n, n - 1)
          await (n % 2 === 0 ? rows.updateMany({ n: { $gte: 0 } }, { $inc: { n: 1 } }) : rows.updateOne({ id: 'a' }, { $inc: { n: 1 } }))
          assert.equal((await rows.findOne({ id: 'a' }))?.n, n)
          assert.equal((await rows.findOne({ n }))?.id, 'a')
        }
        assert.equal(await rows.deleteOne({ id: 'a' }), true)
        assert.equal(await rows.findOne({ id: 'a' }), null)
        assert.equal(await rows.deleteOne({ id: 'a' }), false)
      })

      it('that fail change nothing', async () => {
        await rows.insertOne({ id: 'a', n: 'text', inner: 1 })
        await assert.rejects(rows.updateOne({ id: 'a' }, { $set: { state: 'x' }, $inc: { n: 1 } }))
        await assert.rejects(rows.updateOne({ id: 'a' }, { $push: { n: 1 } }))
        await assert.rejects(rows.updateOne({ id: 'a' }, { $set: { 'inner.x': 1 } }))
        assert.deepEqual(await rows.findOne({ id: 'a' }), { id: 'a', n: 'text', inner: 1 })
      })

      it('leave out what is undefined', async () => {
        await rows.insertOne({ id: 'a', n: 1 })
        assert.equal(await rows.updateOne({ id: 'a' }, { $set: { n: undefined } }), true)
        assert.deepEqual(await rows.findOne({ id: 'a' }), { id: 'a', n: 1 })
      })

      for (const [what, update] of [
        ['of the id', { $set: { id: 'b' } }],
        ['that rename to the id', { $rename: { name: 'id' } }],
        ['of a field twice', { $set: { n: 1 }, $inc: { n: 1 } }],
        ['of a field and a part of it', { $set: { inner: 1, 'inner.x': 1 } }],
        ['by a whole document', { n: 5 }],
        ['without an operator', {}],
        ['with an unknown operator', { $currentDate: { n: true } }],
        ['of a prototype', { $set: { '__proto__.polluted': 1 } }],
        ['at a position', { $set: { 'tags.$': 1 } }],
      ] as [string, Record<string, Record<string, unknown>>][]) {
        it(`${what} are refused`, async () => {
          await rows.insertOne({ id: 'a', n: 1, name: 'x' })
          await assert.rejects(rows.updateOne({ id: 'a' }, update), TypeError)
          assert.deepEqual(await rows.findOne({ id: 'a' }), { id: 'a', n: 1, name: 'x' })
        })
      }
    })

    describe('upserts', () => {
      it('make a document of the filter and the update', async () => {
        assert.equal(
          await rows.updateOne({ id: 'a', state: 'x' }, { $set: { n: 1 }, $setOnInsert: { createdAt: 'now' } }, { upsert: true }),
          false,
        )
        assert.deepEqual(await rows.findOne({ id: 'a' }), { id: 'a', state: 'x', n: 1, createdAt: 'now' })
        assert.equal(
          await rows.updateOne({ id: 'a', state: 'x' }, { $set: { n: 2 }, $setOnInsert: { createdAt: 'later' } }, { upsert: true }),
          true,
        )
        assert.deepEqual(await rows.findOne({ id: 'a' }), { id: 'a', state: 'x', n: 2, createdAt: 'now' })
      })

      it('take their id from $setOnInsert, too', async () => {
        const upsert = (): Promise<Row | null> =>
          rows.findOneAndUpdate({ name: 'x' }, { $inc: { n: 1 }, $setOnInsert: { id: 'new' } }, { upsert: true })
        assert.deepEqual(await upsert(), { id: 'new', name: 'x', n: 1 })
        assert.deepEqual(await upsert(), { id: 'new', name: 'x', n: 2 })
      })

      it('return null when the document before is asked for', async () => {
        assert.equal(await rows.findOneAndUpdate({ id: 'a' }, { $set: { n: 1 } }, { upsert: true, returns: 'before' }), null)
      })

      it('without an id are refused', async () => {
        await assert.rejects(rows.updateOne({ name: 'x' }, { $set: { n: 1 } }, { upsert: true }), /An upsert needs one id/)
        assert.equal(await rows.count({}), 0)
      })

      it('that meet another document with the id are duplicates', async () => {
        await rows.insertOne({ id: 'a', state: 'x' })
        await assert.rejects(rows.updateOne({ id: 'a', state: 'y' }, { $set: { n: 1 } }, { upsert: true }), DuplicateKey)
      })
    })

    describe('unique indexes', () => {
      it('name the fields as they were declared', async function () {
        needsAll(this)
        const handle = await openCollection(
          store,
          fresh(),
          collection.user<Row>({ indexes: [{ fields: { email: 1, state: 1 }, unique: true }] }),
        )
        const own = handle.for({ tenant: null, userId: 'u' })
        await own.insertOne({ id: 'a', email: 'x', state: 's' })
        await assert.rejects(
          own.insertOne({ id: 'b', email: 'x', state: 's' }),
          error => error instanceof DuplicateKey && error.fields.join() === 'email,state',
        )
        await own.insertOne({ id: 'b', email: 'x', state: 't' })
        await assert.rejects(own.updateOne({ id: 'b' }, { $set: { state: 's' } }), DuplicateKey)
        assert.equal((await own.findOne({ id: 'b' }))?.state, 't')
      })

      it('hold within an owner, and across owners where they say so', async () => {
        const spec = collection.user<Row>({
          indexes: [
            { fields: { email: 1 }, unique: true },
            { fields: { state: 1 }, unique: true, acrossOwners: true },
          ],
        })
        const handle = await openCollection(store, fresh(), spec)
        const [one, two] = [handle.for({ tenant: null, userId: 'one' }), handle.for({ tenant: 't', userId: 'one' })]
        await one.insertOne({ id: 'a', email: 'x', state: '1' })
        await two.insertOne({ id: 'b', email: 'x', state: '2' })
        await assert.rejects(one.insertOne({ id: 'c', email: 'x', state: '3' }), DuplicateKey)
        await assert.rejects(two.insertOne({ id: 'c', email: 'y', state: '1' }), DuplicateKey)
      })

      it('treat missing as a value unless they are sparse', async function () {
        needsAll(this)
        const handle = await openCollection(store, fresh(), collection.global<Row>({ indexes: [{ fields: { email: 1 }, unique: true }] }))
        await handle.insertOne({ id: 'a' })
        await assert.rejects(handle.insertOne({ id: 'b', email: null }), DuplicateKey)
      })

      it('that are sparse leave out what is missing or null', async function () {
        needsAll(this)
        await rows.insertMany([{ id: 'a' }, { id: 'b' }, { id: 'c', name: null }, { id: 'd', name: null }, { id: 'e', name: 'x' }])
        await assert.rejects(
          rows.insertOne({ id: 'f', name: 'x' }),
          error => error instanceof DuplicateKey && error.fields.join() === 'name',
        )
        assert.deepEqual(ids(await rows.find({ name: 'x' })), ['e'])
        assert.deepEqual(ids(await rows.find({ name: null })).sort(), ['a', 'b', 'c', 'd'])
      })

      it('let the others of many writes at once pass', async () => {
        const results = await Promise.allSettled(
          Array.from({ length: 50 }, (_, index) => rows.insertOne({ id: `r${String(index % 25)}`, n: index })),
        )
        assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 25)
        assert.equal(await rows.count({}), 25)
      })
    })

    describe('aggregation', () => {
      beforeEach(() =>
        rows.insertMany([
          { id: 'a', n: 1, state: 'x' },
          { id: 'b', n: 2, state: 'x' },
          { id: 'c', n: 5, state: 'y' },
        ]),
      )

      it('groups and sorts', async () => {
        const groups = await rows.aggregate([
          { $match: { n: { $gt: 0 } } },
          { $group: { _id: '$state', total: { $sum: '$n' } } },
          { $sort: { _id: 1 } },
        ])
        assert.deepEqual(groups, [
          { _id: 'x', total: 3 },
          { _id: 'y', total: 5 },
        ])
      })

      it('knows documents by their id', async function () {
        needsAll(this)
        assert.deepEqual(await rows.aggregate([{ $match: { id: { $ne: 'b' } } }, { $sort: { id: -1 } }, { $project: { id: 1, n: 1 } }]), [
          { id: 'c', n: 5 },
          { id: 'a', n: 1 },
        ])
      })

      for (const stage of [
        { $out: 'x' },
        { $merge: { into: 'x' } },
        { $lookup: { from: 'x', as: 'y', pipeline: [] } },
        { $unionWith: 'x' },
        { $graphLookup: {} },
        { $facet: { x: [{ $out: 'y' }] } },
      ]) {
        it(`refuses ${JSON.stringify(stage)}`, async () => {
          await assert.rejects(rows.aggregate([stage]), /is not a stage of the store's aggregations/)
        })
      }

      it('runs no scripts', async () => {
        await assert.rejects(
          rows.aggregate([{ $project: { x: { $function: { body: 'return 1', args: [], lang: 'js' } } } }]),
          /\$function is not part/,
        )
        await assert.rejects(rows.aggregate([{ $match: { $expr: { $function: {} } } }]), /\$expr is not an operator/)
      })
    })

    describe('pages', () => {
      const collect = async (from: Collection<Row>, options: Parameters<Collection<Row>['page']>[1]): Promise<string[]> => {
        const seen: string[] = []
        for (let cursor: string | null | undefined; cursor !== null;) {
          const page = await from.page({}, { ...options, cursor })
          assert.equal(page.hasMore, page.nextCursor !== null)
          seen.push(...ids(page.items))
          cursor = page.nextCursor
        }
        return seen
      }

      it('walk all documents once, newest first', async () => {
        await rows.insertMany(
          Array.from({ length: 23 }, (_, index) => ({
            id: `r${String(index).padStart(2, '0')}`,
            createdAt: `t${String(Math.floor(index / 4))}`,
          })),
        )
        const expected = Array.from({ length: 23 }, (_, index) => `r${String(22 - index).padStart(2, '0')}`)
        assert.deepEqual(await collect(rows, { limit: 5 }), expected)
        assert.deepEqual(await collect(rows, { limit: 4, sort: { createdAt: 1 } }), [...expected].reverse())
        assert.deepEqual(await collect(rows, { limit: 10, sort: { id: 1 } }), [...expected].reverse())
      })

      it('walk over values of every type', async () => {
        const values = [undefined, null, -1, 0, 2.5, '', 'a', 'b', false, true]
        await rows.insertMany(
          values.flatMap((n, index) => ['x', 'y'].map(part => ({ id: `r${String(index)}${part}`, ...(n === undefined ? {} : { n }) }))),
        )
        for (const direction of [1, -1] as const) {
          const expected = ids(await rows.find({}, { sort: { n: direction, id: direction } }))
          assert.deepEqual(await collect(rows, { limit: 3, sort: { n: direction } }), expected)
          assert.equal(expected.length, 20)
        }
      })

      it('stay stable while documents come and go', async () => {
        await rows.insertMany(['a', 'b', 'c', 'd', 'e', 'f'].map(id => ({ id, createdAt: id })))
        const first = await rows.page({}, { limit: 2 })
        assert.deepEqual(ids(first.items), ['f', 'e'])
        await rows.deleteMany({ id: { $in: ['e', 'c'] } })
        await rows.insertOne({ id: 'g', createdAt: 'g' })
        const second = await rows.page({}, { limit: 2, cursor: first.nextCursor ?? '' })
        assert.deepEqual(ids(second.items), ['d', 'b'])
        const third = await rows.page({}, { limit: 2, cursor: second.nextCursor ?? '' })
        assert.deepEqual([ids(third.items), third.hasMore, third.nextCursor], [['a'], false, null])
      })

      it('refuse a cursor of another filter, sort or collection, and a damaged one', async () => {
        await rows.insertMany([
          { id: 'a', n: 1 },
          { id: 'b', n: 1 },
        ])
        const other = await openCollection(store, fresh(), collection.global<Row>())
        const cursor = (await rows.page({ n: 1 }, { limit: 1 })).nextCursor ?? ''
        const isInvalid = (error: unknown): boolean => error instanceof GatewayError && error.code === 'invalid_request'
        await assert.rejects(rows.page({ n: 2 }, { limit: 1, cursor }), isInvalid)
        await assert.rejects(rows.page({ n: 1 }, { limit: 1, cursor, sort: { n: 1 } }), isInvalid)
        await assert.rejects(other.page({ n: 1 }, { limit: 1, cursor }), isInvalid)
        for (const damaged of [
          '',
          'x',
          cursor.slice(1),
          cursor.slice(0, -5),
          Buffer.from('[1,2]').toString('base64url'),
          Buffer.from('null').toString('base64url'),
          '\u0000',
        ])
          await assert.rejects(rows.page({ n: 1 }, { limit: 1, cursor: damaged }), isInvalid, damaged)
        assert.deepEqual(ids((await rows.page({ n: 1 }, { limit: 1, cursor })).items), ['a'])
      })

      for (const limit of [0, -1, 201, 1.5, Number.NaN]) {
        it(`refuse the limit ${String(limit)}`, async () => {
          await assert.rejects(rows.page({}, { limit }), error => error instanceof GatewayError && error.code === 'invalid_request')
        })
      }
    })

    describe('owners', () => {
      let handle: ScopedHandle<Row>
      const ann: Owner = { tenant: 'acme', userId: 'ann' }
      const bob: Owner = { tenant: 'acme', userId: 'bob' }
      const zoe: Owner = { tenant: null, userId: 'ann' }

      beforeEach(async () => {
        handle = await openCollection(store, fresh(), collection.user<Row>({ indexes: [{ fields: { n: 1 } }] }))
        await handle.for(ann).insertMany([
          { id: 'a1', n: 1, createdAt: '1' },
          { id: 'a2', n: 2, createdAt: '2' },
        ])
        await handle.for(bob).insertOne({ id: 'b1', n: 1, createdAt: '1' })
        await handle.for(zoe).insertOne({ id: 'z1', n: 1, createdAt: '1' })
      })

      it('see their own documents, without the stamp', async () => {
        assert.deepEqual(await handle.for(ann).findOne({ id: 'a1' }), { id: 'a1', n: 1, createdAt: '1' })
        assert.deepEqual(await handle.for(ann).find({ n: 1 }), [{ id: 'a1', n: 1, createdAt: '1' }])
        assert.deepEqual((await handle.for(ann).page({})).items, [
          { id: 'a2', n: 2, createdAt: '2' },
          { id: 'a1', n: 1, createdAt: '1' },
        ])
        assert.deepEqual(await handle.for(ann).findOneAndUpdate({ id: 'a1' }, { $set: { n: 7 } }), { id: 'a1', n: 7, createdAt: '1' })
        assert.deepEqual(await handle.for(zoe).find({}), [{ id: 'z1', n: 1, createdAt: '1' }])
        assert.equal(await handle.for(ann).count({}), 2)
      })

      it('reach nothing of others, whatever they ask', async () => {
        for (const other of [bob, zoe]) {
          const own = handle.for(other)
          assert.equal(await own.findOne({ id: 'a1' }), null)
          assert.deepEqual(await own.find({ $or: [{ id: 'a1' }, { id: 'a2' }] }), [])
          assert.equal(await own.updateOne({ id: 'a1' }, { $set: { n: 99 } }), false)
          assert.equal(await own.updateMany({ $or: [{ id: 'a1' }, { id: { $exists: true } }] }, { $set: { state: 'seen' } }), 1)
          assert.equal(await own.findOneAndUpdate({ id: 'a1' }, { $set: { n: 99 } }), null)
          assert.equal(await own.deleteOne({ id: 'a1' }), false)
        }
        assert.equal(await handle.for(bob).deleteMany({}), 1)
        assert.deepEqual(await handle.for(ann).find({ n: { $gte: 0 } }, { sort: { id: 1 } }), [
          { id: 'a1', n: 1, createdAt: '1' },
          { id: 'a2', n: 2, createdAt: '2' },
        ])
      })

      it('aggregate their own documents, without the stamp', async function () {
        needsAll(this)
        assert.deepEqual(await handle.for(ann).aggregate([{ $sort: { n: 1 } }, { $limit: 1 }]), [{ id: 'a1', n: 1, createdAt: '1' }])
        const own = handle.for(bob)
        assert.deepEqual(await own.aggregate([{ $match: { id: 'a1' } }]), [])
        assert.deepEqual(await own.aggregate([{ $match: { $or: [{ id: 'a1' }, {}] } }, { $count: 'n' }]), [{ n: 1 }])
      })

      it('cannot name the owner in a filter, an update or a document', async () => {
        const own = handle.for(bob)
        for (const filter of [
          { userId: 'ann' },
          { tenant: null },
          { $or: [{ userId: 'ann' }, { n: 1 }] },
          { $nor: [{ $and: [{ tenant: 'x' }] }] },
          { 'userId.x': 1 },
        ]) {
          await assert.rejects(own.find(filter), TypeError)
          await assert.rejects(own.deleteMany(filter), TypeError)
          await assert.rejects(own.updateOne({ id: 'x', ...filter }, { $set: { n: 1 } }, { upsert: true }), TypeError)
        }
        for (const update of [
          { $set: { userId: 'ann' } },
          { $unset: { tenant: '' } },
          { $rename: { name: 'userId' } },
          { $setOnInsert: { 'tenant.x': 1 } },
        ] as Record<string, Record<string, unknown>>[])
          await assert.rejects(own.updateMany({}, update), TypeError)
        await assert.rejects(own.insertOne({ id: 'x', userId: 'ann' } as Row), TypeError)
        await assert.rejects(own.insertMany([{ id: 'x' }, { id: 'y', tenant: null } as Row]), TypeError)
        assert.equal(await handle.everyone.count({}), 4)
      })

      it('make documents of their own by upserts', async () => {
        await handle.for(zoe).updateOne({ id: 'z2' }, { $set: { n: 3 } }, { upsert: true })
        assert.deepEqual(await handle.everyone.findOne({ id: 'z2' }), { id: 'z2', n: 3, tenant: null, userId: 'ann' })
        await assert.rejects(handle.for(zoe).updateOne({ id: 'a1' }, { $set: { n: 3 } }, { upsert: true }), DuplicateKey)
        assert.equal((await handle.for(ann).findOne({ id: 'a1' }))?.n, 1)
      })

      it('cannot use the cursor of another', async () => {
        const cursor = (await handle.for(ann).page({}, { limit: 1 })).nextCursor ?? ''
        await assert.rejects(handle.for(bob).page({}, { limit: 1, cursor }), /another list or filter/)
      })

      it('are stamped with nothing less than a tenant or null, and a user', () => {
        for (const owner of [
          { tenant: undefined, userId: 'x' },
          { tenant: '', userId: 'x' },
          { tenant: null, userId: '' },
          { tenant: null },
          { tenant: { $ne: 1 }, userId: 'x' },
        ])
          assert.throws(() => handle.for(owner as unknown as Owner), TypeError)
      })

      it('of a tenant collection are its tenant', async () => {
        const shared = await openCollection(store, fresh(), collection.tenant<Row>())
        await shared.for({ tenant: 'acme' }).insertOne({ id: 'a', createdAt: '1' })
        assert.deepEqual(await shared.for(bob).findOne({ id: 'a' }), { id: 'a', createdAt: '1' })
        assert.equal(await shared.for(zoe).findOne({ id: 'a' }), null)
        assert.deepEqual(await shared.everyone.findOne({ id: 'a' }), { id: 'a', createdAt: '1', tenant: 'acme' })
      })
    })

    it('removes what has expired, and nothing else', async () => {
      const expiring = await openCollection(store, fresh(), collection.user<Row>({ expires: true }))
      const own = expiring.for({ tenant: null, userId: 'u' })
      await own.insertMany([
        { id: 'past', expiresAt: '2020-01-01T00:00:00.000Z' },
        { id: 'future', expiresAt: '2999-01-01T00:00:00.000Z' },
        { id: 'never' },
      ])
      await rows.insertOne({ id: 'kept', expiresAt: '2020-01-01T00:00:00.000Z' })
      assert.equal(await store.sweep(), 1)
      assert.deepEqual(ids(await own.find({}, { sort: { id: 1 } })), ['future', 'never'])
      assert.equal(await store.sweep(new Date('2999-01-02')), 1)
      assert.equal(await rows.count({}), 1)
    })

    describe('racing claims', () => {
      it('have one winner each', async function () {
        needsAll(this)
        await rows.insertMany(Array.from({ length: 20 }, (_, index) => ({ id: `job${String(index)}`, state: 'queued' })))
        const claims = await Promise.all(
          Array.from({ length: 60 }, (_, index) =>
            rows.findOneAndUpdate({ state: 'queued' }, { $set: { state: 'claimed', n: index } }, { sort: { id: 1 } }),
          ),
        )
        const won = claims.filter(claim => claim !== null)
        assert.equal(won.length, 20)
        assert.equal(new Set(ids(won)).size, 20)
      })

      it('lose no increment', async function () {
        needsAll(this)
        await rows.insertOne({ id: 'counter', n: 0 })
        await Promise.all(Array.from({ length: 100 }, () => rows.updateOne({ id: 'counter' }, { $inc: { n: 1 } })))
        assert.equal((await rows.findOne({ id: 'counter' }))?.n, 100)
      })
    })
  })
}
