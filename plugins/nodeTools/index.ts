import { setting } from '../../core/config.js'
import { definePlugin } from '../../core/plugin.js'
import { documents } from '../documents/contract.js'
import { identity } from '../identity/contract.js'
import { nodes, nodeStatusChanged } from '../nodes/contract.js'
import { tools } from '../tools/contract.js'
import { NodeTools } from './service.js'

/** Lets agents use nodes: tools and nodes stand without each other, and meet here. */
export default definePlugin({
  id: 'node-tools',
  needs: { nodes, tools, documents, identity },
  extends: ['tools'],
  settings: {
    /** How long an agent waits for the approval of a command, before it is withdrawn. */
    approvalWait: setting.duration('Service:Nodes:AgentApprovalWait', { default: 600, min: 1, max: 3600, hot: true }),
  },
  setup: ({ needs, settings, on, onStop }) => {
    const nodeTools = new NodeTools({ ...needs, approvalMs: () => settings.approvalWait.get() * 1000 })
    on(nodeStatusChanged, ({ nodeId, status }) => {
      nodeTools.noted(nodeId, status)
    })
    onStop(needs.tools.register(nodeTools.list))
    onStop(needs.tools.extend(nodeTools))
  },
})
