import assert from 'node:assert/strict'
import { GatewayError } from '../../../../core/errors.js'
import { collection, type Collection } from '../../../../core/store/collection.js'
import { openCollection } from '../../../support/store.js'
import { ids, type Row, type Subject } from './subject.js'

/** What every engine promises of pages. */
export const describePages = (subject: Subject): void => {
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
      await subject.rows.insertMany(
        Array.from({ length: 23 }, (_, index) => ({
          id: `r${String(index).padStart(2, '0')}`,
          createdAt: `t${String(Math.floor(index / 4))}`,
        })),
      )
      const expected = Array.from({ length: 23 }, (_, index) => `r${String(22 - index).padStart(2, '0')}`)
      assert.deepEqual(await collect(subject.rows, { limit: 5 }), expected)
      assert.deepEqual(await collect(subject.rows, { limit: 4, sort: { createdAt: 1 } }), [...expected].reverse())
      assert.deepEqual(await collect(subject.rows, { limit: 10, sort: { id: 1 } }), [...expected].reverse())
    })

    it('walk over values of every type', async () => {
      const values = [undefined, null, -1, 0, 2.5, '', 'a', 'b', false, true]
      await subject.rows.insertMany(
        values.flatMap((n, index) => ['x', 'y'].map(part => ({ id: `r${String(index)}${part}`, ...(n === undefined ? {} : { n }) }))),
      )
      for (const direction of [1, -1] as const) {
        const expected = ids(await subject.rows.find({}, { sort: { n: direction, id: direction } }))
        assert.deepEqual(await collect(subject.rows, { limit: 3, sort: { n: direction } }), expected)
        assert.equal(expected.length, 20)
      }
    })

    it('stay stable while documents come and go', async () => {
      await subject.rows.insertMany(['a', 'b', 'c', 'd', 'e', 'f'].map(id => ({ id, createdAt: id })))
      const first = await subject.rows.page({}, { limit: 2 })
      assert.deepEqual(ids(first.items), ['f', 'e'])
      await subject.rows.deleteMany({ id: { $in: ['e', 'c'] } })
      await subject.rows.insertOne({ id: 'g', createdAt: 'g' })
      const second = await subject.rows.page({}, { limit: 2, cursor: first.nextCursor ?? '' })
      assert.deepEqual(ids(second.items), ['d', 'b'])
      const third = await subject.rows.page({}, { limit: 2, cursor: second.nextCursor ?? '' })
      assert.deepEqual([ids(third.items), third.hasMore, third.nextCursor], [['a'], false, null])
    })

    it('refuse a cursor of another filter, sort or collection, and a damaged one', async () => {
      await subject.rows.insertMany([
        { id: 'a', n: 1 },
        { id: 'b', n: 1 },
      ])
      const other = await openCollection(subject.store, subject.fresh(), collection.global<Row>())
      const cursor = (await subject.rows.page({ n: 1 }, { limit: 1 })).nextCursor ?? ''
      const isInvalid = (error: unknown): boolean => error instanceof GatewayError && error.code === 'invalid_request'
      await assert.rejects(subject.rows.page({ n: 2 }, { limit: 1, cursor }), isInvalid)
      await assert.rejects(subject.rows.page({ n: 1 }, { limit: 1, cursor, sort: { n: 1 } }), isInvalid)
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
        await assert.rejects(subject.rows.page({ n: 1 }, { limit: 1, cursor: damaged }), isInvalid, damaged)
      assert.deepEqual(ids((await subject.rows.page({ n: 1 }, { limit: 1, cursor })).items), ['a'])
    })

    for (const limit of [0, -1, 201, 1.5, Number.NaN]) {
      it(`refuse the limit ${String(limit)}`, async () => {
        await assert.rejects(subject.rows.page({}, { limit }), error => error instanceof GatewayError && error.code === 'invalid_request')
      })
    }
  })
}
