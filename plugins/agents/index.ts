import { definePlugin } from '../../core/plugin.js'
import { collection } from '../../core/store/collection.js'
import { agents } from './contract.js'
import { agentRoutes } from './routes.js'
import { AgentService, type AgentRow } from './service.js'

export default definePlugin({
  id: 'agents',
  tags: { agents: 'Agents with their texts (SOUL.md, BOOT.md, HEARTBEAT.md) and the tools that they may use.' },
  provides: agents,
  collections: { rows: collection.user<AgentRow>({ indexes: [{ fields: { slot: 1 }, unique: true, sparse: true }] }) },
  setup: ({ store, routes }) => {
    const service = new AgentService(store.rows)
    routes(agentRoutes(service))
    return service
  },
})
