import type { Plugin } from '../core/plugin.js'
import agents from './agents/index.js'
import approvals from './approvals/index.js'
import attachments from './attachments/index.js'
import audit from './audit/index.js'
import channels from './channels/index.js'
import chat from './chat/index.js'
import documents from './documents/index.js'
import identity from './identity/index.js'
import memory from './memory/index.js'
import models from './models/index.js'
import nodes from './nodes/index.js'
import nodeTools from './nodeTools/index.js'
import offline from './offline/index.js'
import externalPlugins from './plugins/index.js'
import ops from './ops/index.js'
import providers from './providers/index.js'
import publicRoutes from './public/index.js'
import tools from './tools/index.js'
import vault from './vault/index.js'
import webhooks from './webhooks/index.js'

/** Every internal plugin of the gateway. They start by their needs; the order here is that of their areas in the API description. */
export const plugins: readonly Plugin[] = [
  publicRoutes,
  identity,
  agents,
  chat,
  models,
  offline,
  tools,
  memory,
  documents,
  attachments,
  channels,
  webhooks,
  nodes,
  nodeTools,
  approvals,
  externalPlugins,
  providers,
  vault,
  audit,
  ops,
]
