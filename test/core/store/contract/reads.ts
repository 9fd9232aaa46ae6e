import assert from 'node:assert/strict'
import { DuplicateKey } from '../../../../core/store/collection.js'
import { ids, type Row, type Subject } from './subject.js'

/** What every engine promises of documents, filters, sorts and aggregations. */
export const describeReads = (subject: Subject): void => {
  describe('documents', () => {
    it('come back as they were written', async () => {
      const row = {
        id: 'a',
        name: 'Ä "quoted" \u{1f600}',
        n: 1.5,
        tags: [1, 'x', null, { y: [] }],
        inner: { deep: { list: [true, false] }, none: null },
      }
      await subject.rows.insertOne(row)
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), row)
      assert.deepEqual(await subject.rows.find({ n: 1.5 }), [row])
    })

    it('may hold text with NUL', async () => {
      await subject.rows.insertMany([
        { id: 'a', n: 'x\0y' },
        { id: 'b', n: 'x' },
      ])
      assert.deepEqual(ids(await subject.rows.find({ n: 'x\0y' })), ['a'])
      assert.deepEqual(ids(await subject.rows.find({ n: 'x' })), ['b'])
    })

    it('are copies: changing one changes nothing stored', async () => {
      await subject.rows.insertOne({ id: 'a', inner: { x: 1 } })
      const first = await subject.rows.findOne({ id: 'a' })
      assert.ok(first)
      first.inner = 'changed'
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', inner: { x: 1 } })
    })

    it('keep their id for themselves', async function () {
      subject.needsAll(this)
      await subject.rows.insertOne({ id: 'a' })
      await assert.rejects(subject.rows.insertOne({ id: 'a' }), error => error instanceof DuplicateKey && error.fields.join() === 'id')
    })

    for (const id of ['', 'a\0b', 'x'.repeat(600), 5 as unknown as string]) {
      it(`are refused with the id ${JSON.stringify(id).slice(0, 20)}`, async () => {
        await assert.rejects(subject.rows.insertOne({ id }), /A document's id is a string/)
      })
    }

    it('are found by an id with a NUL only when there is one', async () => {
      await subject.rows.insertOne({ id: 'a' })
      assert.equal(await subject.rows.findOne({ id: 'a\0b' }), null)
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
        if (what.startsWith('$elemMatch')) subject.needsAll(this)
        await subject.rows.insertMany(documents)
        assert.deepEqual(ids(await subject.rows.find(filter)).sort(), expected)
        assert.equal(await subject.rows.count(filter), expected.length)
      })
    }

    it('take a list of thousands', async () => {
      await subject.rows.insertMany(documents)
      assert.deepEqual(
        ids(await subject.rows.find({ n: { $in: [...Array.from({ length: 3000 }, (_, index) => index + 2), '1', null] } })).sort(),
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
        await subject.rows.insertOne({ id: 'a' })
        await assert.rejects(subject.rows.find(filter), TypeError)
        await assert.rejects(subject.rows.deleteMany(filter), TypeError)
        assert.equal(await subject.rows.count({}), 1)
      })
    }
  })

  describe('sorting', () => {
    it('orders null and missing before numbers before text before booleans', async () => {
      await subject.rows.insertMany([
        { id: 'a', n: false },
        { id: 'b', n: 'x' },
        { id: 'c', n: 10 },
        { id: 'd', n: 9 },
        { id: 'e', n: null },
        { id: 'f', n: 'B' },
      ])
      assert.deepEqual(ids(await subject.rows.find({}, { sort: { n: 1 } })), ['e', 'd', 'c', 'f', 'b', 'a'])
      assert.deepEqual(ids(await subject.rows.find({}, { sort: { n: -1 } })), ['a', 'b', 'f', 'c', 'd', 'e'])
    })

    it('takes a list by its smallest element, or by its largest when descending', async () => {
      await subject.rows.insertMany([
        { id: 'a', n: 2 },
        { id: 'b', n: [1, 5] },
        { id: 'c', n: 3 },
      ])
      assert.deepEqual(ids(await subject.rows.find({}, { sort: { n: 1 } })), ['b', 'a', 'c'])
      assert.deepEqual(ids(await subject.rows.find({}, { sort: { n: -1 } })), ['b', 'c', 'a'])
    })

    it('takes several fields, a skip and a limit', async () => {
      await subject.rows.insertMany(Array.from({ length: 20 }, (_, index) => ({ id: `r${String(index).padStart(2, '0')}`, n: index % 3 })))
      assert.deepEqual(ids(await subject.rows.find({}, { sort: { n: -1, id: 1 }, skip: 5, limit: 3 })), ['r17', 'r01', 'r04'])
      assert.deepEqual(ids(await subject.rows.find({ n: { $mod: [2, 1] } }, { sort: { id: -1 }, skip: 1, limit: 2 })), ['r16', 'r13'])
      assert.equal((await subject.rows.findOne({ n: 2 }, { sort: { id: -1 } }))?.id, 'r17')
      assert.deepEqual(await subject.rows.find({}, { limit: 0 }), [])
    })

    it('returns at most 1,000 documents unless told otherwise', async () => {
      await subject.rows.insertMany(Array.from({ length: 1100 }, (_, index) => ({ id: `r${String(index)}` })))
      assert.equal((await subject.rows.find({})).length, 1000)
      assert.equal((await subject.rows.find({}, { limit: 1050 })).length, 1050)
    })
  })

  describe('aggregation', () => {
    beforeEach(() =>
      subject.rows.insertMany([
        { id: 'a', n: 1, state: 'x' },
        { id: 'b', n: 2, state: 'x' },
        { id: 'c', n: 5, state: 'y' },
      ]),
    )

    it('groups and sorts', async () => {
      const groups = await subject.rows.aggregate([
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
      subject.needsAll(this)
      assert.deepEqual(
        await subject.rows.aggregate([{ $match: { id: { $ne: 'b' } } }, { $sort: { id: -1 } }, { $project: { id: 1, n: 1 } }]),
        [
          { id: 'c', n: 5 },
          { id: 'a', n: 1 },
        ],
      )
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
        await assert.rejects(subject.rows.aggregate([stage]), /is not a stage of the store's aggregations/)
      })
    }

    it('runs no scripts', async () => {
      await assert.rejects(
        subject.rows.aggregate([{ $project: { x: { $function: { body: 'return 1', args: [], lang: 'js' } } } }]),
        /\$function is not part/,
      )
      await assert.rejects(subject.rows.aggregate([{ $match: { $expr: { $function: {} } } }]), /\$expr is not an operator/)
    })
  })
}
