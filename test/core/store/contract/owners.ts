import assert from 'node:assert/strict'
import { collection, DuplicateKey, type Owner, type ScopedHandle } from '../../../../core/store/collection.js'
import { openCollection } from '../../../support/store.js'
import { type Row, type Subject } from './subject.js'

/** What every engine promises of documents that belong to someone. */
export const describeOwners = (subject: Subject): void => {
  describe('owners', () => {
    let handle: ScopedHandle<Row>
    const ann: Owner = { tenant: 'acme', userId: 'ann' }
    const bob: Owner = { tenant: 'acme', userId: 'bob' }
    const zoe: Owner = { tenant: null, userId: 'ann' }

    beforeEach(async () => {
      handle = await openCollection(subject.store, subject.fresh(), collection.user<Row>({ indexes: [{ fields: { n: 1 } }] }))
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

    it('aggregate their own documents', async () => {
      const own = handle.for(bob)
      const total = (filter: object): Promise<unknown> =>
        own.aggregate([{ $match: filter }, { $group: { _id: null, total: { $sum: '$n' } } }])
      assert.deepEqual(await own.aggregate([{ $match: { id: 'a1' } }]), [])
      assert.deepEqual(await own.aggregate([{ $match: { $or: [{ id: 'a1' }, { n: { $gt: 0 } }] } }, { $count: 'n' }]), [{ n: 1 }])
      assert.deepEqual(await total({ id: { $nin: ['a1'] } }), [{ _id: null, total: 1 }])
      assert.deepEqual(await total({ id: { $nin: ['b1'] } }), [])
    })

    it('aggregate without the stamp', async function () {
      subject.needsAll(this)
      const own = handle.for(ann)
      assert.deepEqual(await own.aggregate([{ $sort: { n: 1 } }, { $limit: 1 }]), [{ id: 'a1', n: 1, createdAt: '1' }])
      assert.deepEqual(await own.aggregate([{ $match: { userId: { $exists: true } } }]), [])
      assert.deepEqual(await own.aggregate([{ $match: { $or: [{ id: 'a1' }, {}] } }, { $count: 'n' }]), [{ n: 2 }])
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
      const shared = await openCollection(subject.store, subject.fresh(), collection.tenant<Row>())
      await shared.for({ tenant: 'acme' }).insertOne({ id: 'a', createdAt: '1' })
      assert.deepEqual(await shared.for(bob).findOne({ id: 'a' }), { id: 'a', createdAt: '1' })
      assert.equal(await shared.for(zoe).findOne({ id: 'a' }), null)
      assert.deepEqual(await shared.everyone.findOne({ id: 'a' }), { id: 'a', createdAt: '1', tenant: 'acme' })
    })
  })
}
