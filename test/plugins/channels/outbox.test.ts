import assert from 'node:assert/strict'
import { openStore } from '../../../core/store/open.js'
import { Outbox } from '../../../plugins/channels/outbox.js'
import { collections } from '../../../plugins/channels/rows.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'

describe('an outbox', () => {
  it('holds no more than its limit: what is beyond it is a dead letter at once, however often', async () => {
    const { path, remove } = await temporaryDirectory()
    const store = await openStore({ dataDir: path })
    try {
      const rows = await openCollection(store, 'outbox', collections.outbox)
      const outbox = new Outbox(rows, 'gw_1', { count: 3, bytes: 1_000_000 })
      const add = (id: string): Promise<boolean> => outbox.add({ id, channelId: 'c', recipient: 'r', text: 'hello', metadata: {} })
      const added = []
      for (let i = 0; i < 10; i++) added.push(await add(`t${String(i)}`))
      assert.deepEqual(added, [true, true, true, false, false, false, false, false, false, false])
      assert.deepEqual(await outbox.counts('c'), { waiting: 3, dead: 7 })
      const [first] = await outbox.waiting('c', [], 1)
      await outbox.done(first!)
      assert.equal(await add('after'), true)
      assert.equal(await add('t0'), false)
    } finally {
      await store.close()
      await remove()
    }
  })
})
