import type { Owner, Store } from '../../../core/store/collection.js'
import { collections } from '../../../plugins/nodes/rows.js'
import { hashOf } from '../../../plugins/nodes/tokens.js'
import { openCollection } from '../../support/store.js'
import { COMMAND, nodeIdOf, SECRET } from './names.js'

const BATCH = 500

/** Paired nodes, so many from number 0 on, written past the gateway: pairing ten thousand of them is another measurement. Closes the store. */
export const seedNodes = async (store: Store, owner: Owner, count: number): Promise<void> => {
  try {
    const rows = (await openCollection(store, 'nodes.nodes', collections.nodes)).for({ tenant: owner.tenant })
    const tokenHash = hashOf(SECRET)
    for (let from = 0; from < count; from += BATCH) {
      const indexes = Array.from({ length: Math.min(BATCH, count - from) }, (_, n) => from + n)
      await rows.insertMany(indexes.map(index => nodeRow(nodeIdOf(index), owner.userId, tokenHash)))
    }
  } finally {
    await store.close()
  }
}

const nodeRow = (id: string, ownerId: string, tokenHash: string) => {
  const now = new Date().toISOString()
  return {
    id,
    name: id,
    platform: 'linux',
    version: '1.0.0',
    capabilities: ['system', 'screen', 'input'],
    ownerId,
    state: 'approved' as const,
    scopes: [COMMAND, 'screen.capture', 'system.info'],
    scopesChanged: false,
    pairing: `key-of-${id}`,
    tokenHash,
    oldTokenHash: null,
    oldTokenUntil: null,
    lastSeenAt: null,
    createdAt: now,
    updatedAt: now,
  }
}
