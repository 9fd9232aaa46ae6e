import { setting } from '../../core/config.js'
import type { Exchange } from '../../core/host/exchange.js'
import { service } from '../../core/plugin.js'
import type { HostRequests, PluginNotifications, PluginRequests } from '../../sdk/protocol.js'

/** Whether plugins of the interfaces ModelProvider and EmbeddingProvider are used. */
export const experimental = setting.boolean('Service:Plugins:Experimental', { default: false, hot: true })

/** One running plugin process after its handshake. Calls reject with an `RpcError` (see sdk/rpc). */
export interface PluginConnection {
  request<M extends keyof HostRequests>(
    method: M,
    params: HostRequests[M]['params'],
    options?: { timeoutMs?: number; signal?: AbortSignal },
  ): Promise<HostRequests[M]['result']>
}

/** A setting of a channel type, from the manifest. */
export interface PluginSetting {
  name: string
  type: 'string' | 'secret'
  displayName: string
  required: boolean
  default?: string
}

/** A channel type that a plugin adds. Known from the manifest, also while the plugin does not run. */
export interface PluginChannelType {
  type: string
  displayName: string
  pluginId: string
  recipientMetadataKey: string
  settings: PluginSetting[]
  /** Whether its process is up and serving. */
  ready: boolean
}

/** A document extractor that a plugin adds. */
export interface PluginExtractor {
  pluginId: string
  version: string
  /** Lower case, with the dot. */
  extensions: string[]
  ready: boolean
}

/** A plugin of an interface that is an experiment. Known from the manifest, also while the plugin does not run. */
export interface PluginProvider {
  pluginId: string
  pluginInterface: 'ModelProvider' | 'EmbeddingProvider'
  version: string
  /** ModelProvider only: another name of it. */
  providerType?: string
  settings: PluginSetting[]
  /** `later`: it does not run now, and will by itself. `off`: it does not until someone does something about it. */
  state: 'ready' | 'later' | 'off'
  /** Why it is not ready. */
  reason?: string
}

/**
 * Runs whenever a process of the plugin has finished its handshake and before calls go to it. `old` is the process
 * that it replaces, still running, when this is a reload; rejecting keeps the old one.
 */
export type Handover = (pluginId: string, next: PluginConnection, old: PluginConnection | undefined) => Promise<void>

/** The host of external plugins, as other areas see it. */
export interface PluginHost {
  /** Resolves once every plugin there is at the start is known (not: runs). */
  readonly discovered: Promise<void>
  channelTypes(): PluginChannelType[]
  extractors(): PluginExtractor[]
  /** Plugins of the interfaces ModelProvider and EmbeddingProvider, whether they are used or not. */
  providers(): PluginProvider[]
  /** Calls the plugin's current process. Rejects at once with a retryable `RpcError` when there is none. */
  request<M extends keyof HostRequests>(
    pluginId: string,
    method: M,
    params: HostRequests[M]['params'],
    options?: { timeoutMs?: number; hardTimeoutMs?: number; signal?: AbortSignal; onProgress?: () => void },
  ): Promise<HostRequests[M]['result']>
  /** Answers a request that plugins make. One handler a method. Returns the undo. */
  serve<M extends keyof PluginRequests>(
    method: M,
    handler: (pluginId: string, params: PluginRequests[M]['params']) => Promise<PluginRequests[M]['result']>,
  ): () => void
  onNotification<M extends keyof PluginNotifications>(
    method: M,
    handler: (pluginId: string, params: PluginNotifications[M]) => void,
  ): () => void
  onHandover(handler: Handover): () => void
  /** Called after every change of state or of the set of plugins. Returns the undo. */
  onChange(handler: (pluginId: string) => void): () => void
  /**
   * A directory that the plugin's process can read and write, for files that travel with a call. `fill` puts them into
   * the draft that it is given. `open` reads what the plugin has put there, and nothing else.
   */
  exchange(pluginId: string, fill: (draft: string) => Promise<void>): Promise<Exchange>
}

export const pluginHost = service<PluginHost>('pluginHost')
