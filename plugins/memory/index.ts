import { definePlugin } from '../../core/plugin.js'
import { collection } from '../../core/store/collection.js'
import { tools } from '../tools/contract.js'
import { memory } from './contract.js'
import type { Entry } from './entry.js'
import { MemoryService } from './service.js'
import { memoryTools } from './tools.js'

export default definePlugin({
  id: 'memory',
  provides: memory,
  needs: { tools },
  collections: {
    entries: collection.user<Entry>({ indexes: [{ fields: { idempotencyKey: 1 }, unique: true, sparse: true }] }),
  },
  setup: ({ needs, store, onStop }) => {
    const service = new MemoryService(store.entries)
    const [remember, search] = memoryTools(service)
    onStop(needs.tools.register(remember))
    onStop(needs.tools.register(search))
    return service
  },
})
