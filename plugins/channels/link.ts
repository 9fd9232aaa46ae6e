import type { PluginConnection } from '../plugins/contract.js'
import type { ChannelStatus } from './contract.js'

/** One enabled channel as this gateway has it connected, or tries to. */
export interface Link {
  readonly channelId: string
  readonly pluginId: string
  /** The process that knows the channel: from just before it is told to connect until it is told to disconnect. */
  process: PluginConnection | undefined
  /** The channel's revision that the process was told. */
  revision: number
  status: ChannelStatus
  lastError: string | undefined
  info: string | undefined
  /** Failed attempts to connect since the last success. */
  failures: number
  retry: NodeJS.Timeout | undefined
  /** The connect under way. */
  attempt: AbortController | undefined
}

export const newLink = (channelId: string, pluginId: string): Link => ({
  channelId,
  pluginId,
  process: undefined,
  revision: 0,
  status: 'disconnected',
  lastError: undefined,
  info: undefined,
  failures: 0,
  retry: undefined,
  attempt: undefined,
})

/** What became of bringing a connection in line with its channel. */
export interface Outcome {
  connected: boolean
  /** It was connected before. */
  wasConnected: boolean
  /** Why it is not connected, when that was tried now. */
  error?: unknown
}

/** A connection was not tried to its end, for a reason of the gateway's own: it says nothing about the adapter. */
export class NotTried extends Error {
  override readonly name: string = 'NotTried'
}
