import { collection } from '../../core/store/collection.js'
import type { InboundMessage, WebhookRequest } from '../../sdk/protocol.js'
import type { PluginSetting } from '../plugins/contract.js'

/** Name and value apart: names come from manifests and may hold any character. */
export interface SettingEntry {
  name: string
  value: string
}

export interface ChannelRow {
  id: string
  type: string
  name: string
  /** Without the secret ones. */
  settings: SettingEntry[]
  /** Names of settings whose values are in the vault. */
  secrets: string[]
  agentId: string | null
  enabled: boolean
  slug: string
  /** Counts changes that a connection has to follow: settings and `enabled`. */
  revision: number
  createdAt: string
  updatedAt: string
  /** Set first when a channel is deleted: hidden from then on, and cleaned up after, also after a crash in between. */
  deletedAt: string | null
}

/** What was last known of a channel type, for the time when its plugin is not there. */
export interface TypeRow {
  id: string
  displayName: string
  pluginId: string
  recipientMetadataKey: string
  settings: PluginSetting[]
  seenAt: string
}

/**
 * Which gateway works on a channel, and how it goes. Held by `holder` until `until`; `fence` counts changes of hand,
 * and every write names it, so that a holder who lost the lease without knowing changes nothing.
 */
export interface ConnectionRow {
  id: string
  holder: string | null
  fence: number
  until: string
  status: string
  lastError: string | null
  info: string | null
  cursor: string | null
}

/** Left for the gateway that holds the channel; its id is channel and kind, so that many are one. */
export interface NoteRow {
  id: string
  channelId: string
  kind: 'waiting' | 'changed'
  expiresAt: string
}

/** `waiting`: to be handled; `done`: kept without content, so that the same message is known again; `dead`: given up, with a reason. */
export type DeliveryState = 'waiting' | 'done' | 'dead'

export interface Delivery {
  id: string
  channelId: string
  state: DeliveryState
  /** Order of arrival. */
  seq: number
  bytes: number
  /** Failures so far, and those in which the plugin's process died. */
  attempts: number
  crashes: number
  /** Not before. */
  nextAt: string | null
  reason: string | null
  createdAt: string
  expiresAt?: string
}

/** A request to be shown to the adapter, or a message of it to be given to the agent. */
export interface InboxRow extends Delivery {
  kind: 'request' | 'message'
  /** Order within one request. */
  index: number
  request?: WebhookRequest
  message?: InboundMessage
}

/** A reply on its way to the platform; its id is the task's. */
export interface OutboxRow extends Delivery {
  recipient: string
  text?: string
  metadata?: Record<string, string | number | boolean>
  /** Who delivers it now, and until when it is nobody else's. */
  claimedBy: string | null
  claimedUntil: string | null
}

const byArrival = { fields: { state: 1, channelId: 1, seq: 1 } } as const

export const collections = {
  rows: collection.user<ChannelRow>({ indexes: [{ fields: { type: 1 }, acrossOwners: true }] }),
  types: collection.global<TypeRow>(),
  connections: collection.global<ConnectionRow>({ indexes: [{ fields: { holder: 1 } }] }),
  notes: collection.global<NoteRow>({ expires: true }),
  inbox: collection.global<InboxRow>({ indexes: [byArrival, { fields: { channelId: 1 } }], expires: true }),
  outbox: collection.global<OutboxRow>({ indexes: [byArrival, { fields: { channelId: 1 } }], expires: true }),
}
