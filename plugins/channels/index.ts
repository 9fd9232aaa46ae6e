import { setting } from '../../core/config.js'
import { gatewayListening } from '../../core/events.js'
import { definePlugin } from '../../core/plugin.js'
import { coreSettings } from '../../core/settings.js'
import { agents } from '../agents/contract.js'
import { audit } from '../audit/contract.js'
import { chat } from '../chat/contract.js'
import { identity } from '../identity/contract.js'
import { pluginHost } from '../plugins/contract.js'
import { vault } from '../vault/contract.js'
import { inboundWebhooks } from '../webhooks/contract.js'
import { Connector } from './connector.js'
import { channelStatusChanged } from './contract.js'
import { Inbox } from './inbox.js'
import { InboxPump, ORIGIN } from './inboxPump.js'
import { gatewayId, Leases } from './leases.js'
import { readStatus } from './messages.js'
import { Neighbours } from './neighbours.js'
import { Notes, type NoteKind } from './notes.js'
import { Outbox } from './outbox.js'
import { OutboxPump } from './outboxPump.js'
import { Processes } from './processes.js'
import { Pump } from './pump.js'
import { receiveFromAdapter } from './receive.js'
import { channelRoutes } from './routes.js'
import { collections } from './rows.js'
import { ChannelSecrets } from './secrets.js'
import { ChannelService } from './service.js'
import { Suspects } from './suspects.js'
import { ChannelTypes } from './types.js'
import { ChannelWebhooks } from './webhook.js'

/** Channels of one plugin whose deliveries are worked off at once, in each direction. */
const PUMPED_AT_ONCE = 16
/** How often channels that another gateway has left, and deliveries that nothing kicked, are looked for. */
const SWEEP_MS = 60_000

export default definePlugin({
  id: 'channels',
  tags: { channels: 'Connections to chat platforms, through plugins.' },
  needs: { agents, audit, chat, identity, pluginHost, vault, inboundWebhooks },
  extends: ['inboundWebhooks'],
  collections,
  settings: {
    dataDir: coreSettings.dataDir,
    mongoUri: coreSettings.mongoUri,
    /** Where several gateways share a store: a gateway that was killed loses its channels to the others after this. */
    leaseSeconds: setting.number('Service:Channels:LeaseSeconds', { default: 60, min: 3, max: 3600 }),
  },
  setup: async ({ needs, store, settings, log, routes, emit, on, onStop }) => {
    const { pluginHost: host, inboundWebhooks: webhooks } = needs
    const { rows } = store
    const failed = (what: string) => (error: unknown) => {
      log.error({ err: error }, what)
    }
    const holder = await gatewayId(settings.dataDir.get())
    const types = new ChannelTypes(store.types, host)
    await types.load()

    const inbox = new Inbox(store.inbox)
    const outbox = new Outbox(store.outbox, holder)
    const secrets = new ChannelSecrets(needs.vault, rows)
    const processes = new Processes(host, types, rows, log)
    const onDeath = processes.died.bind(processes)
    const leases: Leases = new Leases({
      rows: store.connections,
      holder,
      leaseMs: settings.leaseSeconds.get() * 1000,
      log,
      onLost: channelIds => {
        connector.taken(channelIds)
      },
    })
    await leases.begin()
    const connector: Connector = new Connector({
      rows,
      types,
      secrets,
      leases,
      webhookUrl: slug => webhooks.url(slug),
      processOf: pluginId => processes.of(pluginId),
      onDeath,
      onStatus: (channelId, status, lastError) => {
        emit(channelStatusChanged, { channelId, status, ...(lastError === undefined ? {} : { lastError }) })
        const info = connector.get(channelId)?.info ?? null
        leases.save(channelId, { status, lastError: lastError ?? null, info }).catch(failed("a channel's status could not be stored"))
        if (status === 'connected') kick(channelId)
      },
      log,
    })
    processes.connector = connector

    const suspects = new Suspects(connector)
    const tell = (channelId: string, kind: NoteKind) => neighbours.tell(channelId, kind)
    const inboxPump = new InboxPump({
      rows,
      inbox,
      types,
      leases,
      connector,
      suspects,
      chat: needs.chat,
      agents: needs.agents,
      onDeath,
      tell,
      log,
    })
    const outboxPump = new OutboxPump({ rows, outbox, leases, suspects, connector, onDeath, tell, log })
    const lanes = { laneOf: (channelId: string) => connector.get(channelId)?.pluginId ?? '', concurrency: PUMPED_AT_ONCE, log }
    const inbound: Pump = new Pump({ ...lanes, drain: (channelId, run) => inboxPump.drain(channelId, run) })
    const outbound: Pump = new Pump({ ...lanes, drain: (channelId, run) => outboxPump.drain(channelId, run) })
    const kick = (channelId: string): void => {
      inbound.kick(channelId)
      outbound.kick(channelId)
    }
    const shared = settings.mongoUri.get() !== ''
    const neighbours = new Neighbours({ shared, leases, notes: new Notes(store.notes), connector, kick, log })
    const onStored = (channelId: string): void => {
      inbound.kick(channelId)
    }
    const channelWebhooks = new ChannelWebhooks({ connector, inbox, onStored, onDeath, log })
    const { agents: agentService, audit: auditService } = needs
    const service = new ChannelService({
      rows,
      types,
      secrets,
      connector,
      leases,
      inbox,
      outbox,
      webhooks: channelWebhooks,
      inboundWebhooks: webhooks,
      host,
      agents: agentService,
      audit: auditService,
      tellChange: channelId => tell(channelId, 'changed'),
      log,
    })

    /** What waits is looked at, and what no gateway works on is taken up. */
    const sweep = async (): Promise<void> => {
      await processes.connectFree(channelId => connector.get(channelId) !== undefined)
      for (const channelId of await inbox.channelsWaiting()) inbound.kick(channelId)
      for (const channelId of await outbox.channelsWaiting()) outbound.kick(channelId)
    }

    // Undone last to first: nothing new comes in, the pumps finish, the channels disconnect, the leases are given back.
    onStop(() => leases.releaseAll())
    onStop(() => processes.idle())
    onStop(() => connector.stop())
    onStop(() => outbound.stop())
    onStop(() => inbound.stop())
    onStop(() => neighbours.stop())
    onStop(needs.identity.onRemoval('channels', owner => service.removeAll(owner)))
    onStop(webhooks.register('chn', id => service.webhookTarget(id)))
    onStop(host.serve('channel.receive', receiveFromAdapter({ connector, inbox, leases, onStored })))
    onStop(
      host.onNotification('channel.status', (pluginId, params) => {
        const status = readStatus(params)
        if (status)
          connector.reported(pluginId, {
            channelId: status.channelId,
            status: status.status,
            ...(status.message === undefined ? {} : { message: status.message }),
          })
      }),
    )
    onStop(host.onHandover((pluginId, next, old) => processes.arrived(pluginId, next, old)))
    onStop(
      host.onChange(pluginId => {
        processes.changed(pluginId)
        types
          .remember()
          .then(changed => Promise.all(changed.map(type => service.protect(type))))
          .catch(failed('what plugins declare about their channel types could not be stored'))
      }),
    )
    onStop(
      needs.chat.onReply(ORIGIN, async reply => {
        const channelId = await outboxPump.take(reply)
        if (channelId !== undefined) outbound.kick(channelId)
      }),
    )
    on(gatewayListening, async () => {
      await service.clearDeleted()
      await sweep()
      neighbours.start()
    })
    const sweeping = setInterval(() => void sweep().catch(failed('waiting deliveries could not be looked for')), SWEEP_MS).unref()
    onStop(() => {
      clearInterval(sweeping)
    })
    routes(channelRoutes(service, types))
  },
})
