import type { PluginHostCore } from '../../core/host/host.js'
import type { PluginChannelType, PluginExtractor, PluginHost } from './contract.js'

/** The host as other areas see it. */
export const createPluginHost = (host: PluginHostCore): PluginHost => ({
  discovered: host.discovered,
  channelTypes: () =>
    host.supervisors.flatMap(({ id, candidate, current, state }): PluginChannelType[] => {
      const { manifest } = current?.candidate ?? candidate
      if (manifest.channelType === undefined || state === 'disabled') return []
      return [
        {
          type: manifest.channelType,
          displayName: manifest.name,
          pluginId: id,
          recipientMetadataKey: manifest.recipientMetadataKey ?? 'chatId',
          settings: manifest.settings,
          ready: current !== undefined,
        },
      ]
    }),
  extractors: () =>
    host.supervisors.flatMap(({ id, candidate, current }): PluginExtractor[] => {
      const { manifest } = current?.candidate ?? candidate
      if (manifest.supportedExtensions === undefined) return []
      return [{ pluginId: id, version: manifest.version, extensions: manifest.supportedExtensions, ready: current !== undefined }]
    }),
  request: (id, method, params, options) => host.request(id, method, params, options),
  serve: (method, handler) => host.hooks.serve(method, handler),
  onNotification: (method, handler) => host.hooks.onNotification(method, handler),
  onHandover: handler => host.hooks.onHandover(handler),
  onChange: handler => host.hooks.onChange(handler),
  exchange: (id, fill) => host.exchange(id, fill),
})
