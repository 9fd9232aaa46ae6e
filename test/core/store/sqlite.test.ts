import assert from 'node:assert/strict'
import { join } from 'node:path'
import { collection, DuplicateKey } from '../../../core/store/collection.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'
import { describeContract } from './contract.js'

let directory: Awaited<ReturnType<typeof temporaryDirectory>> | undefined
after(() => directory?.remove())

describeContract(
  'SQLite',
  async () => {
    directory = await temporaryDirectory()
    return openSqliteStore({ file: join(directory.path, 'store.db') })
  },
  () => ({ complete: true }),
)

describe('the embedded store', () => {
  it('inserts many documents or none', async () => {
    const own = await temporaryDirectory()
    const store = await openSqliteStore({ file: join(own.path, 'store.db') })
    const rows = await openCollection(store, 'test.rows', collection.global())
    await rows.insertOne({ id: 'b' })
    await assert.rejects(rows.insertMany([{ id: 'a' }, { id: 'b' }, { id: 'c' }]), DuplicateKey)
    assert.deepEqual(await rows.find({}), [{ id: 'b' }])
    await store.close()
    await own.remove()
  })
})
