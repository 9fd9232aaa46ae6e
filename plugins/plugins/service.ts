import type { PluginHostCore } from '../../core/host/host.js'
import { EXPERIMENTAL_INTERFACES } from '../../sdk/manifest.js'
import type { Supervisor } from '../../core/host/supervisor.js'
import type { PluginChannelType, PluginExtractor, PluginHost, PluginProvider } from './contract.js'

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
  providers: () => host.supervisors.flatMap(describeProvider),
  request: (id, method, params, options) => host.request(id, method, params, options),
  serve: (method, handler) => host.hooks.serve(method, handler),
  onNotification: (method, handler) => host.hooks.onNotification(method, handler),
  onHandover: handler => host.hooks.onHandover(handler),
  onChange: handler => host.hooks.onChange(handler),
  exchange: (id, fill) => host.exchange(id, fill),
})

const describeProvider = ({ id, candidate, current, state, reason }: Supervisor): PluginProvider[] => {
  const { manifest } = current?.candidate ?? candidate
  const { pluginInterface, version, providerType, settings } = manifest
  if (!EXPERIMENTAL_INTERFACES.includes(pluginInterface)) return []
  const isReady = current?.process.connected === true
  const isOff = ['disabled', 'stopped', 'failed', 'rejected'].includes(state)
  return [
    {
      pluginId: id,
      pluginInterface: pluginInterface as PluginProvider['pluginInterface'],
      version,
      ...(providerType === undefined ? {} : { providerType }),
      settings,
      state: isReady ? 'ready' : isOff ? 'off' : 'later',
      ...(isReady ? {} : { reason: reason ?? `it is ${state}` }),
    },
  ]
}
