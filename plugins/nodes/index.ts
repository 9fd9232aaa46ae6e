import { gatewayListening } from '../../core/events.js'
import type { Authenticate } from '../../core/http/registry.js'
import { definePlugin, type Plugin } from '../../core/plugin.js'
import { approvalDecided, approvals } from '../approvals/contract.js'
import { audit } from '../audit/contract.js'
import { identity } from '../identity/contract.js'
import { DirectCalls } from './calls.js'
import { CatchUp } from './catchUp.js'
import { APPROVAL_KIND, Commands } from './commands.js'
import { nodes, nodeStatusChanged } from './contract.js'
import { Crashes } from './crashes.js'
import { Directory } from './directory.js'
import { Dispatcher } from './dispatcher.js'
import { Followed } from './followed.js'
import { hubEndpoint } from './hub/endpoint.js'
import { Hub } from './hub/hub.js'
import { Intake } from './intake.js'
import { Ledger, type KnownCommand } from './ledger.js'
import { ownRoutes } from './ownRoutes.js'
import { Pairing } from './pairing.js'
import { pairingRoutes } from './pairingRoutes.js'
import { Presence } from './presence.js'
import { PROTOCOL_VERSIONS } from './protocol.js'
import { Reach } from './reach.js'
import { answerOthers } from './reachable.js'
import { nodeRoutes } from './routes.js'
import { collections, type CommandRow } from './rows.js'
import { Seen } from './seen.js'
import { NodeService } from './service.js'
import { settings as nodeSettings } from './settings.js'
import { Waiters } from './waiters.js'

/** How often commands past their time are looked for. */
const SWEEP_MS = 2_000
/** Every so many sweeps, what other gateways could not tell. */
const CATCH_UP_EVERY = 2
/** Every so many sweeps, approvals that were decided unheard. */
const RECONCILE_EVERY = 15

/** The area of nodes, speaking these versions of the protocol, newest first. */
export const nodesPlugin = (versions: readonly string[]): Plugin =>
  definePlugin({
    id: 'nodes',
    tags: { nodes: 'Machines that pair, connect and run the commands that they allow.' },
    provides: nodes,
    needs: { approvals, audit, identity },
    collections,
    settings: nodeSettings,
    setup: ({ needs, store, settings, http, log, cluster, routes, emit, on, onStop }) => {
      const failed = (what: string) => (error: unknown) => {
        log.error({ err: error }, what)
      }
      const { now } = cluster
      const publicUrl = (): string => http.publicUrl()
      const directory = new Directory(store.nodes, () => settings.rotationGrace.get() * 1000, now)
      const seen = new Seen(directory, log)
      const presence: Presence = new Presence({
        offlineAfterMs: () => settings.offlineAfter.get() * 1000,
        onChange: (nodeId, status) => {
          seen.note(nodeId)
          if (status === 'offline') reach.gone(nodeId)
          emit(nodeStatusChanged, { nodeId, status })
        },
        onHeard: (nodeId, isConnection) => {
          reach.heard(nodeId, isConnection)
        },
      })
      const reach: Reach = new Reach({
        cluster,
        presence,
        drain: nodeId => {
          const session = presence.session(nodeId)
          if (session) dispatcher.drain(session)
        },
      })
      const waiters = new Waiters<CommandRow>()
      const calls = new DirectCalls()
      const over = (row: KnownCommand): void => {
        dispatcher.ended(row)
        waiters.ended(row.id, row)
        reach.ended(row)
      }
      const ledger: Ledger = new Ledger({
        commands: store.commands,
        large: store.large,
        retentionDays: () => settings.retentionDays.get(),
        now,
        onEnded: over,
      })
      const dispatcher: Dispatcher = new Dispatcher({ ledger, presence, now, log })
      const intake = new Intake({ ledger, parts: store.parts, dispatcher, reach, audit: needs.audit, over, log })
      const followed = cluster.isShared
        ? new Followed({ cluster, look: ids => commands.look(ids).catch(failed('the end of a command could not be looked at')) })
        : undefined
      const commands: Commands = new Commands({
        ledger,
        dispatcher,
        presence,
        reach,
        followed,
        approvals: needs.approvals,
        waiters,
        calls,
        policy: () => ({ commands: settings.criticalCommands.get(), requesters: settings.criticalFor.get() }),
        now,
        queueTtlMs: () => settings.queueTtl.get() * 1000,
        maxQueued: () => settings.maxQueued.get(),
      })
      const pairing = new Pairing({
        rows: store.pairings,
        directory,
        publicUrl,
        limiter: cluster.limiter,
        maxPending: () => settings.maxPending.get(),
        maxPendingPerAddress: () => settings.maxPendingPerAddress.get(),
      })
      const pingIntervalMs = settings.pingInterval.get() * 1000
      const hub = new Hub({
        directory,
        presence,
        dispatcher,
        intake,
        calls,
        audit: needs.audit,
        limiter: cluster.limiter,
        now,
        versions,
        pingIntervalMs,
        maxMessages: () => settings.maxMessages.get(),
        log,
      })
      const crashes = new Crashes(store.crashes)
      const service = new NodeService({ directory, pairing, presence, reach, ledger, commands, hub, audit: needs.audit })

      for (const undo of answerOthers({ cluster, presence, commands, dispatcher, ledger, hub, log })) onStop(undo)
      const catchUp = new CatchUp({ cluster, presence, ledger, directory, dispatcher, commands, hub })

      const authenticate: Authenticate = async ({ bearer }) => {
        const { node } = await directory.authenticate(bearer)
        const credential = { kind: 'node', id: node.id } as const
        return { kind: 'node', userId: node.ownerId, tenant: node.tenant, roles: [], permissions: [], credential }
      }
      http.authenticator('node', authenticate)
      const endpoint = hubEndpoint(hub, {
        maxMessageBytes: settings.maxMessageBytes.get(),
        maxBytesPerMinute: () => settings.maxBytesPerMinute.get(),
        pingIntervalMs,
        addressOf: request => http.addressOf(request),
        log,
      })
      http.attach('/hubs/node', {
        ...endpoint,
        close: () => {
          waiters.close()
          seen.noteAll(presence.ids)
          return endpoint.close()
        },
      })

      onStop(() => seen.stop())
      onStop(() => {
        intake.stop()
        dispatcher.stop()
      })
      let sweeps = 0
      let sweeping = Promise.resolve()
      let isSweeping = false
      const timer = setInterval(() => {
        if (isSweeping) return
        isSweeping = true
        sweeps += 1
        const both = async (): Promise<void> => {
          await commands.sweep()
          if (sweeps % CATCH_UP_EVERY === 0) await catchUp.look()
          if (sweeps % RECONCILE_EVERY === 0) await commands.reconcile()
        }
        sweeping = both()
          .catch(failed('commands past their time could not be looked for'))
          .finally(() => (isSweeping = false))
      }, SWEEP_MS).unref()
      onStop(async () => {
        clearInterval(timer)
        await sweeping
      })
      on(gatewayListening, () => commands.reconcile())
      on(approvalDecided, async ({ id, kind }) => {
        if (kind === APPROVAL_KIND) await commands.decided(id)
      })
      onStop(needs.identity.onRemoval('nodes', owner => service.revokeAll(owner)))
      routes([
        ...pairingRoutes(pairing, service),
        ...nodeRoutes({ service, directory, reach, commands, ledger, crashes, audit: needs.audit }),
        ...ownRoutes({ directory, reach, dispatcher, intake, crashes, settings, versions, publicUrl }),
      ])
      return service
    },
  })

export default nodesPlugin(PROTOCOL_VERSIONS)
