import assert from 'node:assert/strict'
import { join } from 'node:path'
import * as fc from 'fast-check'
import { Query } from 'mingo'
import { collection, type Document, type Sort, type Store } from '../../../core/store/collection.js'
import type { JsonObject } from '../../../core/store/json.js'
import { comparator } from '../../../core/store/order.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'

type Row = Document & JsonObject

const scalar = fc.constantFrom<unknown>(
  null,
  true,
  false,
  0,
  1,
  -1,
  1.5,
  2 ** 60,
  1e300,
  '',
  '0',
  '1',
  'a',
  'ab',
  'é',
  '\u{1f600}',
  'x\0y',
  'true',
  '[1]',
  '{}',
)
const nested = fc.oneof(
  scalar,
  fc.array(scalar, { maxLength: 3 }),
  fc.record({ x: scalar }, { requiredKeys: [], noNullPrototype: true }),
  fc.array(fc.record({ x: scalar }, { noNullPrototype: true }), { maxLength: 2 }),
)
const fields = (value: fc.Arbitrary<unknown>): fc.Arbitrary<JsonObject> =>
  fc.record(
    { a: value, b: value, c: fc.oneof(value, fc.record({ d: value }, { requiredKeys: [], noNullPrototype: true })) },
    { requiredKeys: [], noNullPrototype: true },
  )
/** Collections whose fields are all scalars are answered by SQL alone; others need the exact filter, too. */
const documents = fc
  .oneof(fc.array(fields(scalar), { maxLength: 12 }), fc.array(fields(nested), { maxLength: 12 }))
  .map(list => list.map((row, index): Row => ({ id: `r${String(index).padStart(2, '0')}`, ...row })))

const path = fc.constantFrom('a', 'b', 'c.d', 'c')
const operators = fc.oneof(
  scalar.map(value => ({ $eq: value })),
  scalar.map(value => ({ $ne: value })),
  fc.array(scalar, { maxLength: 12 }).map(list => ({ $in: list })),
  fc.array(scalar, { maxLength: 3 }).map(list => ({ $nin: list })),
  fc.boolean().map(wanted => ({ $exists: wanted })),
  fc.tuple(fc.constantFrom('$gt', '$gte', '$lt', '$lte'), scalar).map(([operator, value]) => ({ [operator]: value })),
  fc.tuple(scalar, scalar).map(([low, high]) => ({ $gte: low, $lt: high })),
  scalar.map(value => ({ $not: { $gt: value } })),
)
const condition = fc.tuple(path, fc.oneof(nested, operators)).map(([field, value]): JsonObject => ({ [field]: value }))
const { filter } = fc.letrec<{ filter: JsonObject }>(tie => ({
  filter: fc.oneof(
    { maxDepth: 2 },
    condition,
    fc.tuple(condition, condition).map(([one, two]) => ({ ...one, ...two })),
    fc
      .tuple(fc.constantFrom('$and', '$or', '$nor'), fc.array(tie('filter'), { minLength: 1, maxLength: 3 }))
      .map(([operator, branches]) => ({ [operator]: branches })),
  ),
}))
const sort = fc.tuple(path, fc.constantFrom<1 | -1>(1, -1)).map(([field, direction]): Sort => ({ [field]: direction, id: direction }))

describe('the embedded store answers as its filters mean', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let store: Store
  let serial = 0

  before(async () => {
    directory = await temporaryDirectory()
    store = await openSqliteStore({ file: join(directory.path, 'store.db') })
  })
  after(async () => {
    await store.close()
    await directory.remove()
  })

  for (const [what, indexes] of [
    ['with indexes', [{ fields: { a: 1 } }, { fields: { b: -1, 'c.d': 1 } }, { fields: { 'c.d': 1 }, sparse: true }] as const],
    ['without indexes', []],
  ] as const) {
    it(`${what}, over any documents and filters`, async () => {
      const property = fc.asyncProperty(
        documents,
        fc.array(fc.tuple(filter, sort), { minLength: 5, maxLength: 10 }),
        async (rows, queries) => {
          const found = await openCollection(store, `property.rows${String(serial++)}`, collection.global<Row>({ indexes: [...indexes] }))
          await found.insertMany(rows)
          for (const [wanted, order] of queries) {
            const query = new Query(wanted, { scriptEnabled: false })
            const expected = rows.filter(row => query.test(row)).sort(comparator(order))
            assert.deepEqual(await found.find(wanted, { sort: order }), expected)
            assert.deepEqual(await found.find(wanted, { sort: order, skip: 1, limit: 2 }), expected.slice(1, 3))
            assert.equal(await found.count(wanted), expected.length)
          }
        },
      )
      await fc.assert(property, { numRuns: 150 })
    })
  }

  it('and so do changes of one document by its id and more', async () => {
    const plain = fc.record(
      {
        a: fc.oneof(
          scalar,
          fc.array(scalar, { maxLength: 3 }).map(list => ({ $in: list })),
        ),
      },
      { noNullPrototype: true },
    )
    const property = fc.asyncProperty(
      documents,
      fc.array(fc.oneof(plain, filter), { minLength: 2, maxLength: 5 }),
      async (rows, filters) => {
        const changed = await openCollection(store, `property.rows${String(serial++)}`, collection.global<Row>({}))
        await changed.insertMany(rows)
        for (const wanted of filters as JsonObject[]) {
          const query = new Query(wanted, { scriptEnabled: false })
          const changes = rows.map(({ id }) => changed.updateOne({ ...wanted, id }, { $set: { seen: serial } }))
          assert.deepEqual(
            await Promise.all(changes),
            rows.map(row => query.test(row)),
          )
          assert.equal(await changed.updateOne({ ...wanted, id: 'none' }, { $set: { seen: serial } }), false)
        }
      },
    )
    await fc.assert(property, { numRuns: 60 })
  })
})
