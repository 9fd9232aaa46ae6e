import assert from 'node:assert/strict'
import { collection, type Collection } from '../../../core/store/collection.js'
import { DeliveryQueue } from '../../../plugins/channels/queue.js'
import type { OutboxRow } from '../../../plugins/channels/rows.js'
import { engines, type OpenedStore } from '../../support/engines.js'
import { openCollection } from '../../support/store.js'

const LIMIT = { count: 3, bytes: 1_000 }

for (const [engine, open] of engines)
  describe(`a channel's queue, found again on ${engine}`, () => {
    let opened: OpenedStore
    let rows: Collection<OutboxRow>
    beforeEach(async () => {
      opened = await open()
      rows = await openCollection(opened.store, 'channels.outbox', collection.global<OutboxRow>())
    })
    afterEach(() => opened.remove())

    /** One that measures what is there, as after a restart, when these wait. */
    const queueWith = async (...sizes: number[]): Promise<DeliveryQueue<OutboxRow>> => {
      for (const [n, bytes] of sizes.entries())
        await rows.insertOne({ id: `r${String(n)}`, channelId: 'c', state: 'waiting', bytes } as OutboxRow)
      return new DeliveryQueue(rows, [], LIMIT)
    }

    it('has no room beyond its number of deliveries', async () => {
      assert.equal(await (await queueWith(1, 1)).reserve('c', { count: 1, bytes: 1 }), true)
      assert.equal(await (await queueWith()).reserve('c', { count: 2, bytes: 1 }), false)
    })

    it('has no room beyond its bytes', async () => {
      const queue = await queueWith(600, 300)
      assert.equal(await queue.reserve('c', { count: 1, bytes: 101 }), false)
      assert.equal(await queue.reserve('c', { count: 1, bytes: 100 }), true)
    })
  })
