import { gatewayListening } from '../../core/events.js'
import type { Authenticate } from '../../core/http/registry.js'
import { definePlugin, type Plugin } from '../../core/plugin.js'
import { approvalDecided, approvals } from '../approvals/contract.js'
import { audit } from '../audit/contract.js'
import { identity } from '../identity/contract.js'
import { DirectCalls } from './calls.js'
import { APPROVAL_KIND, Commands } from './commands.js'
import { nodes, nodeStatusChanged } from './contract.js'
import { Crashes } from './crashes.js'
import { Directory } from './directory.js'
import { Dispatcher } from './dispatcher.js'
import { hubEndpoint } from './hub/endpoint.js'
import { Hub } from './hub/hub.js'
import { Intake } from './intake.js'
import { Ledger } from './ledger.js'
import { ownRoutes } from './ownRoutes.js'
import { Pairing } from './pairing.js'
import { pairingRoutes } from './pairingRoutes.js'
import { Presence } from './presence.js'
import { PROTOCOL_VERSIONS } from './protocol.js'
import { nodeRoutes } from './routes.js'
import { collections, type CommandRow } from './rows.js'
import { Seen } from './seen.js'
import { NodeService } from './service.js'
import { settings as nodeSettings } from './settings.js'
import { Waiters } from './waiters.js'

/** How often commands past their time are looked for. */
const SWEEP_MS = 2_000
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
    setup: ({ needs, store, settings, http, log, routes, emit, on, onStop }) => {
      const failed = (what: string) => (error: unknown) => {
        log.error({ err: error }, what)
      }
      const publicUrl = (): string => http.publicUrl()
      const directory = new Directory(store.nodes, () => settings.rotationGrace.get() * 1000)
      const seen = new Seen(directory, log)
      const presence = new Presence({
        offlineAfterMs: () => settings.offlineAfter.get() * 1000,
        onChange: (nodeId, status) => {
          seen.note(nodeId)
          emit(nodeStatusChanged, { nodeId, status })
        },
      })
      const waiters = new Waiters<CommandRow>()
      const calls = new DirectCalls()
      const ledger: Ledger = new Ledger({
        commands: store.commands,
        large: store.large,
        retentionDays: () => settings.retentionDays.get(),
        onEnded: row => {
          dispatcher.ended(row)
          waiters.ended(row.id, row)
        },
      })
      const dispatcher = new Dispatcher({ ledger, presence, log })
      const intake = new Intake({ ledger, parts: store.parts, dispatcher, audit: needs.audit })
      const commands = new Commands({
        ledger,
        dispatcher,
        presence,
        approvals: needs.approvals,
        waiters,
        calls,
        policy: () => ({ commands: settings.criticalCommands.get(), requesters: settings.criticalFor.get() }),
        queueTtlMs: () => settings.queueTtl.get() * 1000,
        maxQueued: () => settings.maxQueued.get(),
      })
      const pairing = new Pairing({
        rows: store.pairings,
        directory,
        publicUrl,
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
        versions,
        pingIntervalMs,
        maxMessages: () => settings.maxMessages.get(),
        log,
      })
      const crashes = new Crashes(store.crashes)
      const service = new NodeService({ directory, pairing, presence, ledger, commands, hub, audit: needs.audit })

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
        ...nodeRoutes({ service, directory, presence, commands, ledger, crashes, audit: needs.audit }),
        ...ownRoutes({ directory, presence, dispatcher, intake, crashes, settings, versions, publicUrl }),
      ])
      return service
    },
  })

export default nodesPlugin(PROTOCOL_VERSIONS)
