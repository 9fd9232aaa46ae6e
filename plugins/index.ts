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

/** Every internal plugin of the gateway. They start and stop by their needs alone: the order here means nothing. */
export const plugins: readonly Plugin[] = [
  agents,
  approvals,
  attachments,
  audit,
  channels,
  chat,
  documents,
  externalPlugins,
  identity,
  memory,
  models,
  nodes,
  nodeTools,
  offline,
  ops,
  providers,
  publicRoutes,
  tools,
  vault,
  webhooks,
]

/** The tags of the API description, in the order that a reader meets them in. */
export const areas: readonly string[] = [
  'public',
  'auth',
  'admin',
  'agents',
  'chat',
  'sessions',
  'tasks',
  'models',
  'tools',
  'documents',
  'channels',
  'webhooks',
  'nodes',
  'approvals',
  'plugins',
  'ops',
]
