import type { InboundWebhooks } from '../webhooks/contract.js'
import type { Connector } from './connector.js'
import { ChannelStatus, type Channel } from './contract.js'
import type { ChannelRow, ConnectionRow } from './rows.js'
import { shownSettings } from './settings.js'
import type { ChannelTypes, KnownType } from './types.js'

interface ViewParts {
  types: ChannelTypes
  connector: Connector
  inboundWebhooks: InboundWebhooks
}

/** A stored channel as its owner is shown it: secrets masked, with the state of its connection. */
export class ChannelView {
  readonly #parts: ViewParts

  constructor(parts: ViewParts) {
    this.#parts = parts
  }

  /** `elsewhere`: what another gateway says that has the channel. */
  show(row: ChannelRow, elsewhere: ConnectionRow | undefined): Channel {
    const type = this.#parts.types.ofStored(row.type)
    const { status, lastError, info } = this.#state(row, type, elsewhere)
    return {
      id: row.id,
      type: row.type,
      name: row.name,
      settings: shownSettings(row, type),
      agentId: row.agentId,
      enabled: row.enabled,
      status,
      webhookUrl: this.#parts.inboundWebhooks.url(row.slug),
      ...(lastError === undefined ? {} : { lastError }),
      ...(info === undefined ? {} : { info }),
      createdAt: row.createdAt,
      updatedAt: row.updatedAt,
    }
  }

  #state(row: ChannelRow, type: KnownType, elsewhere: ConnectionRow | undefined): Pick<Channel, 'status' | 'lastError' | 'info'> {
    if (!row.enabled) return { status: 'disconnected' }
    const link = this.#parts.connector.get(row.id)
    if (link) return { status: link.status, lastError: link.lastError, info: link.info }
    if (elsewhere) {
      const status = ChannelStatus.safeParse(elsewhere.status).data ?? 'disconnected'
      return { status, lastError: elsewhere.lastError ?? undefined, info: elsewhere.info ?? undefined }
    }
    return type.ready ? { status: 'connecting' } : { status: 'disconnected', lastError: notRunning(type) }
  }
}

/** Why the channels of a type are not connected. */
export const notRunning = ({ type, pluginId }: KnownType): string =>
  pluginId === undefined
    ? `no plugin for the channel type "${type}" is installed: the channel connects when there is one`
    : `the plugin "${pluginId}" does not run: the channel connects when it is back`
