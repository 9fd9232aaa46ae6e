import { z } from 'zod'
import { event } from '../../core/plugin.js'

export const ChannelStatus = z.enum(['connecting', 'connected', 'disconnected', 'error'])
export type ChannelStatus = z.infer<typeof ChannelStatus>

export const ChannelSetting = z
  .object({
    name: z.string(),
    type: z.enum(['string', 'secret']),
    displayName: z.string(),
    required: z.boolean(),
    /** Pre-filled; used where nothing is set. */
    default: z.string().optional(),
  })
  .meta({ id: 'ChannelSetting' })

export const ChannelType = z
  .object({
    type: z.string(),
    displayName: z.string(),
    source: z.enum(['builtin', 'plugin']),
    pluginId: z.string().optional(),
    /** The key of a message's metadata that says where a reply goes. */
    recipientMetadataKey: z.string(),
    settings: z.array(ChannelSetting),
    /** Whether its plugin serves now; channels of the others connect when it is back. */
    ready: z.boolean(),
  })
  .meta({ id: 'ChannelType' })
export type ChannelType = z.infer<typeof ChannelType>

const Backlog = z.object({ waiting: z.number(), dead: z.number() })

export const Channel = z
  .object({
    id: z.string(),
    type: z.string(),
    name: z.string(),
    /** What is in force, defaults included; secrets are masked as `********`. */
    settings: z.record(z.string(), z.string()),
    agentId: z.string().nullable(),
    enabled: z.boolean(),
    status: ChannelStatus,
    webhookUrl: z.string(),
    lastError: z.string().optional(),
    /** What the adapter said about itself when it connected, for example the account's name. */
    info: z.string().optional(),
    createdAt: z.string(),
    updatedAt: z.string(),
  })
  .meta({ id: 'Channel' })
export type Channel = z.infer<typeof Channel>

export const ChannelDetail = Channel.extend({
  /** Deliveries of the platform: waiting to be handled, and given up. */
  inbox: Backlog,
  /** Replies to the platform: waiting to be sent, and given up. */
  outbox: Backlog,
  /** The newest that were given up, newest first, at most 20. */
  deadLetters: z.array(z.object({ id: z.string(), direction: z.enum(['inbound', 'outbound']), reason: z.string(), createdAt: z.string() })),
}).meta({ id: 'ChannelDetail' })
export type ChannelDetail = z.infer<typeof ChannelDetail>

/** A channel's connection changed its state. */
export const channelStatusChanged = event(
  'channels.statusChanged',
  z.object({ channelId: z.string(), status: ChannelStatus, lastError: z.string().optional() }),
)
