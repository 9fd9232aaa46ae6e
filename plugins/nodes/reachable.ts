import type { Cluster } from '../../core/cluster/cluster.js'
import { notFound } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { callNode, commandOver, commandPostponed, nodeAwaited, nodeChanged, nodeHeard, pollNode, takeCommand } from './between.js'
import type { Commands } from './commands.js'
import type { Dispatcher } from './dispatcher.js'
import type { Hub } from './hub/hub.js'
import type { Ledger } from './ledger.js'
import type { Presence } from './presence.js'

interface Parts {
  cluster: Cluster
  presence: Presence
  commands: Commands
  dispatcher: Dispatcher
  ledger: Ledger
  hub: Hub
  log: Log
}

/**
 * Answers what other gateways ask about the nodes that are here. What they say is taken as a hint where the store knows
 * better; who owns a node and what it may be asked is checked here once more.
 */
export const answerOthers = ({ cluster, presence, commands, dispatcher, ledger, hub, log }: Parts): (() => void)[] => {
  const run = (what: string, work: Promise<unknown>): void => {
    work.catch((error: unknown) => log.error({ err: error }, what))
  }
  return [
    cluster.answer(takeCommand, async ({ owner, nodeId, id, wanted }) => {
      const session = presence.session(nodeId)
      if (!session) return {}
      if (session.node.ownerId !== owner.userId || session.node.tenant !== owner.tenant) throw notFound('Node')
      return { status: (await commands.take(owner, session, id, wanted)).status }
    }),
    cluster.answer(callNode, async ({ owner, nodeId, wanted }) => {
      const session = presence.session(nodeId)
      if (!session) return {}
      if (session.node.ownerId !== owner.userId || session.node.tenant !== owner.tenant) throw notFound('Node')
      return { outcome: await commands.call(owner, session, wanted) }
    }),
    cluster.answer(pollNode, async ({ nodeId, scopes, resume }) =>
      presence.get(nodeId) ? { commands: await dispatcher.poll(nodeId, scopes, { resume }) } : {},
    ),
    cluster.hear(nodeHeard, ({ nodeId, heartbeat }) => {
      if (presence.get(nodeId)) presence.heartbeat(nodeId, heartbeat)
    }),
    cluster.hear(nodeAwaited, ({ nodeId }) => {
      const session = presence.session(nodeId)
      if (session) dispatcher.drain(session)
    }),
    cluster.hear(nodeChanged, ({ nodeId }) => {
      if (presence.get(nodeId)) run('a change of a node could not be looked at', hub.changed(nodeId))
    }),
    cluster.hear(commandOver, ({ id }) => {
      run('the end of a command could not be looked at', commands.look([id]))
    }),
    cluster.hear(commandPostponed, ({ id, retryAfterMs }) => {
      const postpone = async (): Promise<void> => {
        const row = await ledger.find(id)
        if (row && (row.status === 'dispatched' || row.status === 'running')) dispatcher.retry(row, retryAfterMs)
      }
      run('a busy node could not be asked again', postpone())
    }),
  ]
}
