import { conflict, notFound, upstreamUnavailable, validationFailed } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { newId } from '../../core/id.js'
import type { Log } from '../../core/log.js'
import { redact } from '../../core/redaction.js'
import type { Owned, Owner, Page, PageOptions, ScopedHandle } from '../../core/store/collection.js'
import type { Agents } from '../agents/contract.js'
import type { Audit } from '../audit/contract.js'
import type { PluginHost } from '../plugins/contract.js'
import type { InboundWebhooks, WebhookTarget } from '../webhooks/contract.js'
import type { Connector } from './connector.js'
import type { Channel, ChannelDetail } from './contract.js'
import { readFailure } from './failure.js'
import type { Inbox } from './inbox.js'
import type { Leases } from './leases.js'
import { readTestResult } from './messages.js'
import type { Outbox } from './outbox.js'
import type { ChannelRow } from './rows.js'
import type { ChannelSecrets } from './secrets.js'
import { Serial } from './serial.js'
import { changeSettings, missingSettings, type SettingsChange } from './settings.js'
import type { ChannelTypes, KnownType } from './types.js'
import { ChannelView, notRunning } from './view.js'
import type { ChannelWebhooks } from './webhook.js'

/** Channels of one user. */
export const MAX_CHANNELS = 1000
const DEAD_LETTERS_SHOWN = 20
const TEST_TIMEOUT_MS = 30_000

export interface NewChannel {
  type: string
  name: string
  settings: Record<string, string | null>
  agentId?: string | null | undefined
  enabled?: boolean | undefined
}

export interface ChannelChanges {
  name?: string | undefined
  settings?: Record<string, string | null> | undefined
  agentId?: string | null | undefined
  enabled?: boolean | undefined
}

export interface ServiceParts {
  rows: ScopedHandle<ChannelRow>
  types: ChannelTypes
  secrets: ChannelSecrets
  connector: Connector
  leases: Leases
  inbox: Inbox
  outbox: Outbox
  webhooks: ChannelWebhooks
  inboundWebhooks: InboundWebhooks
  host: PluginHost
  agents: Agents
  audit: Audit
  /** Tells the gateway that has the channel, if it is another, that the record has changed. */
  tellChange: (channelId: string) => Promise<void>
  log: Log
}

/** Channels as their owners manage them. */
export class ChannelService {
  readonly #parts: ServiceParts
  readonly #view: ChannelView
  readonly #serial = new Serial()

  constructor(parts: ServiceParts) {
    this.#parts = parts
    this.#view = new ChannelView(parts)
  }

  async list(owner: Owner, options: PageOptions): Promise<Page<Channel>> {
    const page = await this.#parts.rows.for(owner).page({ deletedAt: null }, options)
    const elsewhere = await this.#parts.leases.elsewhere(page.items.map(({ id }) => id))
    return { ...page, items: page.items.map(row => this.#view.show(row, elsewhere.get(row.id))) }
  }

  async get(owner: Owner, id: string): Promise<ChannelDetail> {
    const row = await this.#find(owner, id)
    const { inbox, outbox, leases } = this.#parts
    const [waitingIn, waitingOut, deadIn, deadOut, elsewhere] = await Promise.all([
      inbox.counts(id),
      outbox.counts(id),
      inbox.dead(id, DEAD_LETTERS_SHOWN),
      outbox.dead(id, DEAD_LETTERS_SHOWN),
      leases.elsewhere([id]),
    ])
    const letters = [
      ...deadIn.map(letter => ({ ...letter, direction: 'inbound' as const })),
      ...deadOut.map(letter => ({ ...letter, direction: 'outbound' as const })),
    ]
    const deadLetters = letters
      .sort((a, b) => b.seq - a.seq)
      .slice(0, DEAD_LETTERS_SHOWN)
      .map(({ id: letterId, direction, reason, createdAt }) => ({ id: letterId, direction, reason: reason ?? '', createdAt }))
    return { ...this.#view.show(row, elsewhere.get(id)), inbox: waitingIn, outbox: waitingOut, deadLetters }
  }

  async create(caller: Caller, { type: typeName, name, settings, agentId = null, enabled = true }: NewChannel): Promise<Channel> {
    const type = await this.#typeFor(typeName)
    const change = accepted(changeSettings({ settings: [], secrets: [] }, settings, type))
    await this.#checkAgent(caller, agentId)
    const rows = this.#parts.rows.for(caller)
    if ((await rows.count({ deletedAt: null })) >= MAX_CHANNELS)
      throw conflict(`You have ${MAX_CHANNELS} channels already: delete one first`)
    const id = newId('chn')
    const now = new Date().toISOString()
    const slug = this.#parts.inboundWebhooks.mint(id)
    const row: ChannelRow = {
      id,
      type: typeName,
      name,
      ...change.stored,
      agentId,
      enabled,
      slug,
      revision: 1,
      createdAt: now,
      updatedAt: now,
      deletedAt: null,
    }
    // Secrets first: the channel may be connected as soon as it is there.
    await this.#parts.secrets.put(caller, id, change.put)
    try {
      await rows.insertOne(row)
    } catch (error) {
      await this.#parts.secrets.removeAll(caller, id)
      throw error
    }
    await this.#parts.audit.record(caller, { action: 'channels.create', target: id, details: { type: typeName, name } })
    this.#reconcile(id)
    return this.#view.show(row, undefined)
  }

  update(caller: Caller, id: string, changes: ChannelChanges): Promise<Channel> {
    return this.#serial.run(id, () => this.#update(caller, id, changes))
  }

  remove(caller: Caller, id: string): Promise<void> {
    return this.#serial.run(id, () => this.#remove(caller, id))
  }

  async #remove(caller: Caller, id: string): Promise<void> {
    const deletedAt = new Date().toISOString()
    const rows = this.#parts.rows.for(caller)
    const row = await rows.findOneAndUpdate({ id, deletedAt: null }, { $set: { deletedAt, enabled: false } })
    if (!row) throw notFound('Channel')
    await this.#clear({ ...row, tenant: caller.tenant, userId: caller.userId })
    await this.#parts.audit.record(caller, { action: 'channels.delete', target: id, details: { type: row.type, name: row.name } })
  }

  /** Every channel of an owner who is gone. */
  async removeAll(owner: Owner): Promise<void> {
    for (const { id } of await this.#parts.rows.for(owner).find({}, { limit: MAX_CHANNELS }))
      await this.#serial.run(id, async () => {
        const deletedAt = new Date().toISOString()
        const row = await this.#parts.rows.for(owner).findOneAndUpdate({ id }, { $set: { deletedAt, enabled: false } })
        if (row) await this.#clear({ ...row, tenant: owner.tenant, userId: owner.userId })
      })
  }

  /** Finishes deletions that a crash has interrupted. */
  async clearDeleted(): Promise<void> {
    for (const row of await this.#parts.rows.everyone.find({ deletedAt: { $ne: null } })) await this.#clear(row)
  }

  /** Asks the adapter to try the settings, without touching the connection. */
  async test(owner: Owner, id: string): Promise<{ ok: boolean; message?: string | undefined }> {
    const row = await this.#find(owner, id)
    const type = this.#parts.types.ofStored(row.type)
    const settings = await this.#parts.secrets.hydrate({ ...row, tenant: owner.tenant, userId: owner.userId }, type)
    const [missing] = missingSettings(new Set(Object.keys(settings)), type)
    if (missing) return { ok: false, message: missing.message }
    if (type.pluginId === undefined || !type.ready) return { ok: false, message: notRunning(type) }
    const params = { channelId: id, settings, webhookUrl: this.#parts.inboundWebhooks.url(row.slug) }
    try {
      const result = readTestResult(await this.#parts.host.request(type.pluginId, 'channel.test', params, { timeoutMs: TEST_TIMEOUT_MS }))
      return { ok: result.ok, ...(result.message === undefined ? {} : { message: redact(result.message) }) }
    } catch (error) {
      const failure = readFailure(error)
      if (failure.kind === 'unsupported') return { ok: true, message: 'The settings are complete; the adapter has no test of its own' }
      if (failure.kind === 'refused') return { ok: false, message: failure.message }
      throw upstreamUnavailable(`The adapter could not test the channel: ${failure.message}`, error)
    }
  }

  /** For the receive route: a channel that is disabled takes nothing and is told from an unknown one by nobody. */
  async webhookTarget(id: string): Promise<WebhookTarget | null> {
    const row = await this.#parts.rows.everyone.findOne({ id })
    if (!row?.enabled || row.deletedAt !== null) return null
    return { slug: row.slug, receive: webhook => this.#parts.webhooks.receive(id, webhook) }
  }

  /** Moves secrets stored in plain, now that their types' manifests are known. */
  async protect(type: KnownType): Promise<void> {
    let cursor: string | undefined
    do {
      const page = await this.#parts.rows.everyone.page({ type: type.type }, { limit: 200, cursor, sort: { createdAt: 1 } })
      for (const { id } of page.items) await this.#serial.run(id, () => this.#protect(id, type))
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
  }

  async #protect(id: string, type: KnownType): Promise<void> {
    const row = await this.#parts.rows.everyone.findOne({ id, deletedAt: null })
    if (row) await this.#parts.secrets.protect(row, type)
  }

  async #update(caller: Caller, id: string, changes: ChannelChanges): Promise<Channel> {
    const row = await this.#find(caller, id)
    const type = this.#parts.types.ofStored(row.type)
    const change = changes.settings ? accepted(changeSettings(row, changes.settings, type)) : undefined
    if (changes.agentId !== undefined) await this.#checkAgent(caller, changes.agentId)
    if (change) await this.#parts.secrets.put(caller, id, change.put)
    const isReconnected = change !== undefined || (changes.enabled !== undefined && changes.enabled !== row.enabled)
    const $set = {
      ...(changes.name === undefined ? {} : { name: changes.name }),
      ...(changes.agentId === undefined ? {} : { agentId: changes.agentId }),
      ...(changes.enabled === undefined ? {} : { enabled: changes.enabled }),
      ...change?.stored,
      updatedAt: new Date().toISOString(),
    }
    const update = { $set, ...(isReconnected ? { $inc: { revision: 1 } } : {}) }
    const updated = await this.#parts.rows.for(caller).findOneAndUpdate({ id, deletedAt: null, revision: row.revision }, update)
    if (!updated) {
      // Through another gateway. What was put into the vault behind a deletion would stay there.
      const isLeft = await this.#parts.rows.for(caller).findOne({ id, deletedAt: null })
      if (isLeft) throw conflict('The channel was changed at the same time: read it and try again')
      await this.#parts.secrets.removeAll(caller, id)
      throw notFound('Channel')
    }
    if (change) await this.#parts.secrets.remove(caller, id, change.remove)
    await this.#parts.audit.record(caller, { action: 'channels.update', target: id, details: { fields: Object.keys(changes) } })
    if (isReconnected) {
      this.#reconcile(id)
      await this.#parts.tellChange(id)
    }
    return this.#view.show(updated, (await this.#parts.leases.elsewhere([id])).get(id))
  }

  async #clear(row: Owned<ChannelRow>): Promise<void> {
    const { connector, inbox, outbox, secrets, leases, rows } = this.#parts
    await connector.reconcile(row.id, { atOnce: true })
    await this.#parts.tellChange(row.id)
    await inbox.removeAll(row.id)
    await outbox.removeAll(row.id)
    await secrets.removeAll(row, row.id)
    await leases.forget(row.id)
    await rows.everyone.deleteOne({ id: row.id })
  }

  async #find(owner: Owner, id: string): Promise<ChannelRow> {
    const row = await this.#parts.rows.for(owner).findOne({ id, deletedAt: null })
    if (!row) throw notFound('Channel')
    return row
  }

  /** A type that a plugin declares or once declared, or at least that a stored channel has. */
  async #typeFor(name: string): Promise<KnownType> {
    const known = this.#parts.types.get(name)
    if (known) return known
    if (await this.#parts.rows.everyone.findOne({ type: name })) return this.#parts.types.ofStored(name)
    throw validationFailed([{ path: 'type', message: `there is no channel type "${name}": GET /channels/types lists them` }])
  }

  async #checkAgent(owner: Owner, agentId: string | null): Promise<void> {
    if (agentId === null) return
    try {
      await this.#parts.agents.get(owner, agentId)
    } catch (error) {
      if ((error as { code?: unknown }).code !== 'not_found') throw error
      throw validationFailed([{ path: 'agentId', message: 'you have no agent with this id' }])
    }
  }

  #reconcile(id: string): void {
    this.#parts.connector
      .reconcile(id, { atOnce: true })
      .catch((error: unknown) => this.#parts.log.error({ err: error, channelId: id }, 'a channel could not be connected'))
  }
}

/** The change, unless something is wrong with it. */
const accepted = (change: SettingsChange): SettingsChange => {
  if (change.issues.length > 0) throw validationFailed(change.issues)
  return change
}
