import assert from 'node:assert/strict'
import { createLog } from '../../../core/log.js'
import { collection, type ScopedHandle } from '../../../core/store/collection.js'
import { Quota } from '../../../plugins/documents/quota.js'
import type { DocumentRow, ReservationRow } from '../../../plugins/documents/rows.js'
import { engines, type OpenedStore } from '../../support/engines.js'
import { openCollection } from '../../support/store.js'

const owner = { tenant: null, userId: 'u1' }
const log = createLog({ level: 'silent', write: () => undefined })

for (const [engine, open] of engines)
  describe(`what a user may keep, on ${engine}`, () => {
    let opened: OpenedStore
    let rows: ScopedHandle<DocumentRow>
    let quota: Quota
    beforeEach(async () => {
      opened = await open()
      const { store } = opened
      rows = await openCollection(store, 'documents.rows', collection.user<DocumentRow>())
      const reservations = await openCollection(store, 'documents.reservations', collection.user<ReservationRow>({ expires: true }))
      quota = new Quota({ rows, reservations, limits: () => ({ bytes: 1_000, documents: 3 }), log })
    })
    afterEach(() => opened.remove())

    const add = (id: string, size: number): Promise<void> =>
      quota.within(owner, { id, size }, () => {
        const now = new Date().toISOString()
        const of = { name: id, extension: '.txt', mimeType: 'text/plain', version: 1, status: 'ready' as const, extractor: null }
        return rows.for(owner).insertOne({ id, size, ...of, createdAt: now, updatedAt: now })
      })

    it('is limited in number', async () => {
      for (const id of ['a', 'b', 'c']) await add(id, 10)
      await assert.rejects(add('d', 10), /You keep 3 documents here, and no more than 3 are allowed/)
      assert.equal(await rows.for(owner).count({}), 3)
    })

    it('is limited in bytes', async () => {
      await add('a', 600)
      await assert.rejects(add('b', 600), /With this document, what you keep here/)
      await add('c', 400)
    })

    it('counts those that are stored at the same time', async () => {
      const outcomes = await Promise.allSettled(Array.from({ length: 6 }, (_, n) => add(`d${String(n)}`, 10)))
      assert.equal(outcomes.filter(({ status }) => status === 'fulfilled').length, 3)
    })
  })
