import { definePlugin } from '../../core/plugin.js'
import { collection } from '../../core/store/collection.js'
import { identity } from '../identity/contract.js'
import { tools } from '../tools/contract.js'
import { memory } from './contract.js'
import type { Entry } from './entry.js'
import { SemanticSearch } from './semanticSearch.js'
import { MemoryService } from './service.js'
import { memoryTools } from './tools.js'
import type { StoredVector } from './vectorRow.js'

export default definePlugin({
  id: 'memory',
  provides: memory,
  needs: { identity, tools },
  extends: ['tools'],
  collections: {
    entries: collection.user<Entry>({ indexes: [{ fields: { idempotencyKey: 1 }, unique: true, sparse: true }] }),
    vectors: collection.user<StoredVector>({ indexes: [{ fields: { madeBy: 1, createdAt: -1 } }] }),
  },
  setup: ({ needs, store, log, onStop }) => {
    const semantic = new SemanticSearch({ entries: store.entries, vectors: store.vectors, log })
    onStop(() => semantic.close())
    const service = new MemoryService(store.entries, semantic)
    onStop(() => service.close())
    onStop(
      needs.identity.onRemoval('memory', async owner => {
        await store.vectors.for(owner).deleteMany({})
        await store.entries.for(owner).deleteMany({})
      }),
    )
    const [remember, search] = memoryTools(service)
    onStop(needs.tools.register(remember))
    onStop(needs.tools.register(search))
    return service
  },
})
