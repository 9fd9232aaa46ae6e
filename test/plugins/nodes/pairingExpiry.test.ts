import assert from 'node:assert/strict'
import { join } from 'node:path'
import { singleGateway } from '../../../core/cluster/single.js'
import type { Caller } from '../../../core/http/caller.js'
import type { Store } from '../../../core/store/collection.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { Directory } from '../../../plugins/nodes/directory.js'
import { Pairing, SECRET_LIFETIME_MS } from '../../../plugins/nodes/pairing.js'
import { collections } from '../../../plugins/nodes/rows.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'
import { SECRET } from './support.js'

const ADDRESS = '127.0.0.1'
const admin: Caller = {
  kind: 'user',
  userId: 'usr_1',
  tenant: null,
  roles: ['Admin'],
  permissions: [],
  credential: { kind: 'session', id: 'ses_1' },
}

describe('the secret of a pairing, after 15 minutes', () => {
  let store: Store
  let pairing: Pairing
  let remove: () => Promise<void>
  let later: number

  beforeEach(async () => {
    const directory = await temporaryDirectory()
    remove = directory.remove
    later = 0
    store = await openSqliteStore({ file: join(directory.path, 'store.db') })
    const rows = await openCollection(store, 'nodes.pairings', collections.pairings)
    const nodes = await openCollection(store, 'nodes.nodes', collections.nodes)
    pairing = new Pairing({
      rows,
      directory: new Directory(nodes, () => 60_000, Date.now),
      publicUrl: () => 'http://gateway',
      maxPending: () => 10,
      maxPendingPerAddress: () => 1,
      limiter: singleGateway().limiter,
      now: () => Date.now() + later,
    })
  })
  afterEach(async () => {
    await store.close()
    await remove()
  })

  const request = (pairingSecret = SECRET) =>
    pairing.request(ADDRESS, { nodeId: 'robot', pairingSecret, name: 'robot', platform: null, version: null, capabilities: [] })
  const poll = (pairingSecret = SECRET) => pairing.poll(ADDRESS, 'robot', pairingSecret)

  it('is dead: nobody can approve it any more, and the node asks with another one', async () => {
    await request()
    later = SECRET_LIFETIME_MS - 5_000
    assert.equal((await poll()).status, 'pending')
    later = SECRET_LIFETIME_MS + 1
    assert.deepEqual(await poll(), { status: 'expired' })
    assert.equal(await pairing.status('robot'), 'expired')
    assert.deepEqual((await pairing.pending({})).items, [])
    await assert.rejects(pairing.approve(admin, 'robot', []), { code: 'conflict' })
    await assert.rejects(pairing.reject('robot'), { code: 'conflict' })
    await assert.rejects(request(), { code: 'conflict' })
    // What is dead takes no room.
    assert.equal((await request(`${SECRET} anew`)).row.state, 'pending')
    await assert.rejects(poll(), { code: 'unauthenticated' })
    await pairing.approve(admin, 'robot', [])
    assert.equal((await poll(`${SECRET} anew`)).status, 'approved')
  })

  it('brings no token, though it was approved in time', async () => {
    await request()
    await pairing.approve(admin, 'robot', [])
    later = SECRET_LIFETIME_MS + 1
    assert.deepEqual(await poll(), { status: 'expired' })
    assert.equal(await pairing.status('robot'), 'approved')
    await assert.rejects(request(`${SECRET} anew`), { code: 'conflict' })
  })

  it('still tells that the token was handed out', async () => {
    await request()
    await pairing.approve(admin, 'robot', [])
    assert.equal((await poll()).status, 'approved')
    later = SECRET_LIFETIME_MS + 1
    await assert.rejects(poll(), { code: 'conflict' })
  })
})
