import assert from 'node:assert/strict'
import { join } from 'node:path'
import { Holder } from '../../../core/lease.js'
import { collection, type Collection, type Store } from '../../../core/store/collection.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { Jobs } from '../../../plugins/documents/jobs.js'
import type { JobRow } from '../../../plugins/documents/rows.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'

const owner = { tenant: null, userId: 'u1' }
const reader = { pluginId: 'reader', version: '1.0.0', extensions: ['.odd'], ready: true }

describe('the work on documents, shared by several gateways on one store', () => {
  let directory: Awaited<ReturnType<typeof temporaryDirectory>>
  let store: Store
  let rows: Collection<JobRow>
  let holders: Holder[]
  let one: Jobs
  let other: Jobs

  beforeEach(async () => {
    directory = await temporaryDirectory()
    store = await openSqliteStore({ file: join(directory.path, 'store.db') })
    rows = await openCollection(store, 'documents.jobs', collection.global<JobRow>())
    holders = [new Holder(), new Holder()]
    ;[one, other] = holders.map(holder => new Jobs(rows, holder)) as [Jobs, Jobs]
  })
  afterEach(async () => {
    for (const holder of holders) holder.close()
    await store.close()
    await directory.remove()
  })

  const add = async (id: string): Promise<JobRow> => {
    await one.add(owner, { id, extension: '.odd' })
    return find(id)
  }
  const find = async (id: string): Promise<JobRow> => (await rows.findOne({ id }))!

  it('is taken by one of those who ask at the same time', async () => {
    const job = await add('a')
    const claims = await Promise.all([one, other, one, other].map(jobs => jobs.claim(job)))
    assert.equal(claims.filter(claim => claim !== null).length, 1)
    assert.deepEqual([await one.due({ ids: [], extensions: [] }), await one.abandoned(), await other.abandoned()], [[], [], []])
    assert.notEqual(await one.isHeld('a'), await other.isHeld('a'))
  })

  it('is taken over, once, when its gateway is gone, and then no longer that gateway its own', async () => {
    const job = await add('a')
    await one.claim(job)
    await rows.updateOne({ id: 'a' }, { $set: { 'lease.until': new Date(Date.now() - 1).toISOString() } })
    const [abandoned] = await other.abandoned()
    assert.ok(abandoned)
    assert.equal((await other.claim(abandoned))?.attempts, 2)
    assert.equal(await one.claim(abandoned), null)
    assert.deepEqual([await one.renew('a'), await other.renew('a')], [false, true])
    await one.done('a')
    await one.release('a', { counts: false })
    assert.equal((await find('a')).state, 'running')
    await other.done('a')
    assert.equal(await rows.count({}), 0)
  })

  it('put back costs a try only when that is said, and is not due before its time', async () => {
    await one.claim(await add('a'))
    await one.release('a', { counts: false })
    assert.deepEqual([(await find('a')).attempts, (await other.due({ ids: [], extensions: [] })).length], [0, 1])
    await other.claim(await find('a'))
    await other.release('a', { counts: true, delayMs: 60_000 })
    assert.deepEqual([(await find('a')).attempts, (await other.due({ ids: [], extensions: [] })).length], [1, 0])
  })

  it('that a version of a plugin crashed on waits for another version', async () => {
    const job = await one.claim(await add('a'))
    await one.putAside(job!, reader)
    await other.wake([reader, { ...reader, extensions: ['.even'], version: '2.0.0' }, { ...reader, version: '2.0.0', ready: false }])
    assert.equal((await find('a')).state, 'waiting')
    await other.wake([{ ...reader, version: '1.0.1' }])
    assert.deepEqual([(await find('a')).state, (await find('a')).attempts], ['queued', 0])
  })

  it('ends when the document is removed, and a removal that is cut off is found', async () => {
    await one.claim(await add('a'))
    await other.remove(owner, { id: 'a', extension: '.odd' })
    assert.deepEqual([await one.renew('a'), await one.isHeld('a')], [false, false])
    await one.release('a', { counts: false })
    assert.deepEqual([(await find('a')).state, await one.cutOff()], ['removing', []])
    await rows.updateOne({ id: 'a' }, { $set: { dueAt: new Date(Date.now() - 61_000).toISOString() } })
    assert.deepEqual(
      (await one.cutOff()).map(({ id }) => id),
      ['a'],
    )
    await one.removed('a')
    assert.equal(await rows.count({}), 0)
  })

  it('without a document is dropped once that document cannot come any more', async () => {
    await one.dropOrphan(await add('a'))
    assert.equal(await rows.count({}), 1)
    await one.dropOrphan({ ...(await find('a')), createdAt: new Date(Date.now() - 601_000).toISOString() })
    assert.equal(await rows.count({}), 0)
  })
})
