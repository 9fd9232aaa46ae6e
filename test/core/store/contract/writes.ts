import assert from 'node:assert/strict'
import { collection, DuplicateKey } from '../../../../core/store/collection.js'
import { openCollection } from '../../../support/store.js'
import { ids, type Row, type Subject } from './subject.js'

/** What every engine promises of updates, upserts, unique indexes, expiry and racing claims. */
export const describeWrites = (subject: Subject): void => {
  describe('updates', () => {
    it('apply every operator', async () => {
      await subject.rows.insertOne({ id: 'a', n: 1, name: 'x', tags: [3, 1], inner: { x: 1, y: 2 } })
      const change = (update: Record<string, Record<string, unknown>>): Promise<Row | null> =>
        subject.rows.findOneAndUpdate({ id: 'a' }, update)
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
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', n: 9, state: 'x', tags: [3, 1, 7], inner: { x: 1, z: 3 } })
    })

    it('cut a list', async function () {
      subject.needsAll(this)
      await subject.rows.insertOne({ id: 'a', tags: [3, 1] })
      const changed = await subject.rows.findOneAndUpdate({ id: 'a' }, { $push: { tags: { $each: [7, 8], $slice: -3 } } })
      assert.deepEqual(changed?.tags, [1, 7, 8])
      await subject.rows.updateOne({ id: 'a' }, { $pull: { tags: { $gte: 7 } } })
      assert.deepEqual((await subject.rows.findOne({ id: 'a' }))?.tags, [1])
    })

    it('of what is missing do what MongoDB does', async () => {
      await subject.rows.insertOne({ id: 'a' })
      await subject.rows.updateOne({ id: 'a' }, { $rename: { name: 'state' }, $pull: { tags: 1 }, $unset: { email: '' }, $mul: { n: 3 } })
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', n: 0 })
      await subject.rows.updateOne({ id: 'a' }, { $pop: { tags: 1 }, $max: { n: 4 }, $min: { 'inner.low': 2 }, $inc: { 'inner.high': 1 } })
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', n: 4, inner: { low: 2, high: 1 } })
    })

    it('leave a null where an element is unset', async function () {
      subject.needsAll(this)
      await subject.rows.insertOne({ id: 'a', n: 1, tags: ['x', 'y'] })
      await subject.rows.updateOne({ id: 'a' }, { $unset: { 'tags.0': '', n: '' } })
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', tags: [null, 'y'] })
    })

    it('say whether a document matched, even when nothing changed', async () => {
      await subject.rows.insertOne({ id: 'a', n: 1 })
      assert.equal(await subject.rows.updateOne({ id: 'a' }, { $set: { n: 1 } }), true)
      assert.equal(await subject.rows.updateOne({ id: 'a', n: 2 }, { $set: { n: 3 } }), false)
      assert.equal(await subject.rows.updateOne({ id: 'none' }, { $set: { n: 3 } }), false)
    })

    it('of many say how many', async () => {
      await subject.rows.insertMany([
        { id: 'a', n: 1 },
        { id: 'b', n: 2 },
        { id: 'c', n: 3 },
      ])
      assert.equal(await subject.rows.updateMany({ n: { $gte: 2 } }, { $inc: { n: 10 } }), 2)
      assert.deepEqual(
        (await subject.rows.find({}, { sort: { id: 1 } })).map(({ n }) => n),
        [1, 12, 13],
      )
      assert.equal(await subject.rows.deleteMany({ n: { $gt: 1 } }), 2)
      assert.equal(await subject.rows.count({}), 1)
    })

    it('return the document before or after, by the sort, or null', async () => {
      await subject.rows.insertMany([
        { id: 'a', n: 1, state: 'q' },
        { id: 'b', n: 2, state: 'q' },
      ])
      assert.deepEqual(await subject.rows.findOneAndUpdate({ state: 'q' }, { $set: { state: 'r' } }, { sort: { n: -1 } }), {
        id: 'b',
        n: 2,
        state: 'r',
      })
      assert.deepEqual(await subject.rows.findOneAndUpdate({ state: 'q' }, { $set: { state: 'r' } }, { returns: 'before' }), {
        id: 'a',
        n: 1,
        state: 'q',
      })
      assert.equal(await subject.rows.findOneAndUpdate({ state: 'q' }, { $set: { state: 'r' } }), null)
    })

    it('are seen by reads by id and by filter once they resolve', async () => {
      await subject.rows.insertOne({ id: 'a', n: 0 })
      for (let n = 1; n <= 20; n++) {
        assert.equal((await subject.rows.findOne({ id: 'a' }))?.n, n - 1)
        await (n % 2 === 0
          ? subject.rows.updateMany({ n: { $gte: 0 } }, { $inc: { n: 1 } })
          : subject.rows.updateOne({ id: 'a' }, { $inc: { n: 1 } }))
        assert.equal((await subject.rows.findOne({ id: 'a' }))?.n, n)
        assert.equal((await subject.rows.findOne({ n }))?.id, 'a')
      }
      assert.equal(await subject.rows.deleteOne({ id: 'a' }), true)
      assert.equal(await subject.rows.findOne({ id: 'a' }), null)
      assert.equal(await subject.rows.deleteOne({ id: 'a' }), false)
    })

    it('that fail change nothing', async () => {
      await subject.rows.insertOne({ id: 'a', n: 'text', inner: 1 })
      await assert.rejects(subject.rows.updateOne({ id: 'a' }, { $set: { state: 'x' }, $inc: { n: 1 } }))
      await assert.rejects(subject.rows.updateOne({ id: 'a' }, { $push: { n: 1 } }))
      await assert.rejects(subject.rows.updateOne({ id: 'a' }, { $set: { 'inner.x': 1 } }))
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', n: 'text', inner: 1 })
    })

    it('leave out what is undefined', async () => {
      await subject.rows.insertOne({ id: 'a', n: 1 })
      assert.equal(await subject.rows.updateOne({ id: 'a' }, { $set: { n: undefined } }), true)
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', n: 1 })
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
        await subject.rows.insertOne({ id: 'a', n: 1, name: 'x' })
        await assert.rejects(subject.rows.updateOne({ id: 'a' }, update), TypeError)
        assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', n: 1, name: 'x' })
      })
    }
  })

  describe('upserts', () => {
    it('make a document of the filter and the update', async () => {
      assert.equal(
        await subject.rows.updateOne({ id: 'a', state: 'x' }, { $set: { n: 1 }, $setOnInsert: { createdAt: 'now' } }, { upsert: true }),
        false,
      )
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', state: 'x', n: 1, createdAt: 'now' })
      assert.equal(
        await subject.rows.updateOne({ id: 'a', state: 'x' }, { $set: { n: 2 }, $setOnInsert: { createdAt: 'later' } }, { upsert: true }),
        true,
      )
      assert.deepEqual(await subject.rows.findOne({ id: 'a' }), { id: 'a', state: 'x', n: 2, createdAt: 'now' })
    })

    it('take their id from $setOnInsert, too', async () => {
      const upsert = (): Promise<Row | null> =>
        subject.rows.findOneAndUpdate({ name: 'x' }, { $inc: { n: 1 }, $setOnInsert: { id: 'new' } }, { upsert: true })
      assert.deepEqual(await upsert(), { id: 'new', name: 'x', n: 1 })
      assert.deepEqual(await upsert(), { id: 'new', name: 'x', n: 2 })
    })

    it('return null when the document before is asked for', async () => {
      assert.equal(await subject.rows.findOneAndUpdate({ id: 'a' }, { $set: { n: 1 } }, { upsert: true, returns: 'before' }), null)
    })

    it('without an id are refused', async () => {
      await assert.rejects(subject.rows.updateOne({ name: 'x' }, { $set: { n: 1 } }, { upsert: true }), /An upsert needs one id/)
      assert.equal(await subject.rows.count({}), 0)
    })

    it('that meet another document with the id are duplicates', async () => {
      await subject.rows.insertOne({ id: 'a', state: 'x' })
      await assert.rejects(subject.rows.updateOne({ id: 'a', state: 'y' }, { $set: { n: 1 } }, { upsert: true }), DuplicateKey)
    })
  })

  describe('unique indexes', () => {
    it('name the fields as they were declared', async function () {
      subject.needsAll(this)
      const handle = await openCollection(
        subject.store,
        subject.fresh(),
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
      const handle = await openCollection(subject.store, subject.fresh(), spec)
      const [one, two] = [handle.for({ tenant: null, userId: 'one' }), handle.for({ tenant: 't', userId: 'one' })]
      await one.insertOne({ id: 'a', email: 'x', state: '1' })
      await two.insertOne({ id: 'b', email: 'x', state: '2' })
      await assert.rejects(one.insertOne({ id: 'c', email: 'x', state: '3' }), DuplicateKey)
      await assert.rejects(two.insertOne({ id: 'c', email: 'y', state: '1' }), DuplicateKey)
    })

    it('treat missing as a value unless they are sparse', async function () {
      subject.needsAll(this)
      const handle = await openCollection(
        subject.store,
        subject.fresh(),
        collection.global<Row>({ indexes: [{ fields: { email: 1 }, unique: true }] }),
      )
      await handle.insertOne({ id: 'a' })
      await assert.rejects(handle.insertOne({ id: 'b', email: null }), DuplicateKey)
    })

    it('that are sparse leave out what is missing or null', async function () {
      subject.needsAll(this)
      await subject.rows.insertMany([{ id: 'a' }, { id: 'b' }, { id: 'c', name: null }, { id: 'd', name: null }, { id: 'e', name: 'x' }])
      await assert.rejects(
        subject.rows.insertOne({ id: 'f', name: 'x' }),
        error => error instanceof DuplicateKey && error.fields.join() === 'name',
      )
      assert.deepEqual(ids(await subject.rows.find({ name: 'x' })), ['e'])
      assert.deepEqual(ids(await subject.rows.find({ name: null })).sort(), ['a', 'b', 'c', 'd'])
    })

    it('let the others of many writes at once pass', async () => {
      const results = await Promise.allSettled(
        Array.from({ length: 50 }, (_, index) => subject.rows.insertOne({ id: `r${String(index % 25)}`, n: index })),
      )
      assert.equal(results.filter(({ status }) => status === 'fulfilled').length, 25)
      assert.equal(await subject.rows.count({}), 25)
    })
  })

  it('removes what has expired, and nothing else', async () => {
    const expiring = await openCollection(subject.store, subject.fresh(), collection.user<Row>({ expires: true }))
    const own = expiring.for({ tenant: null, userId: 'u' })
    await own.insertMany([
      { id: 'past', expiresAt: '2020-01-01T00:00:00.000Z' },
      { id: 'future', expiresAt: '2999-01-01T00:00:00.000Z' },
      { id: 'never' },
    ])
    await subject.rows.insertOne({ id: 'kept', expiresAt: '2020-01-01T00:00:00.000Z' })
    assert.equal(await subject.store.sweep(), 1)
    assert.deepEqual(ids(await own.find({}, { sort: { id: 1 } })), ['future', 'never'])
    assert.equal(await subject.store.sweep(new Date('2999-01-02')), 1)
    assert.equal(await subject.rows.count({}), 1)
  })

  describe('racing claims', () => {
    it('have one winner each', async function () {
      subject.needsAll(this)
      await subject.rows.insertMany(Array.from({ length: 20 }, (_, index) => ({ id: `job${String(index)}`, state: 'queued' })))
      const claims = await Promise.all(
        Array.from({ length: 60 }, (_, index) =>
          subject.rows.findOneAndUpdate({ state: 'queued' }, { $set: { state: 'claimed', n: index } }, { sort: { id: 1 } }),
        ),
      )
      const won = claims.filter(claim => claim !== null)
      assert.equal(won.length, 20)
      assert.equal(new Set(ids(won)).size, 20)
    })

    it('lose no increment', async function () {
      subject.needsAll(this)
      await subject.rows.insertOne({ id: 'counter', n: 0 })
      await Promise.all(Array.from({ length: 100 }, () => subject.rows.updateOne({ id: 'counter' }, { $inc: { n: 1 } })))
      assert.equal((await subject.rows.findOne({ id: 'counter' }))?.n, 100)
    })
  })
}
