import { definePlugin } from '../../core/plugin.js'
import { collection } from '../../core/store/collection.js'
import { identity } from '../identity/contract.js'
import { agents } from './contract.js'
import { agentRoutes } from './routes.js'
import { AgentService, type AgentRow } from './service.js'

export default definePlugin({
  id: 'agents',
  tags: { agents: 'Agents with their texts (SOUL.md, BOOT.md, HEARTBEAT.md) and the tools that they may use.' },
  provides: agents,
  needs: { identity },
  collections: { rows: collection.user<AgentRow>({ indexes: [{ fields: { slot: 1 }, unique: true, sparse: true }] }) },
  setup: ({ needs, store, routes, onStop }) => {
    const service = new AgentService(store.rows)
    onStop(
      needs.identity.onRemoval('agents', async owner => {
        await store.rows.for(owner).deleteMany({})
      }),
    )
    routes(agentRoutes(service))
    return service
  },
})
