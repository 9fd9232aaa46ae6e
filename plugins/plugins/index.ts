import { setting } from '../../core/config.js'
import { gatewayListening } from '../../core/events.js'
import { PluginHostCore } from '../../core/host/host.js'
import { unreadableKeys } from '../../core/host/signature.js'
import { TIERS } from '../../core/host/launch/tier.js'
import { definePlugin } from '../../core/plugin.js'
import { coreSettings } from '../../core/settings.js'
import { collection } from '../../core/store/collection.js'
import { audit } from '../audit/contract.js'
import { metrics } from '../ops/contract.js'
import { experimental, pluginHost } from './contract.js'
import { Installer } from './installer.js'
import { pluginMetrics } from './pluginMetrics.js'
import { pluginRoutes } from './routes.js'
import { createPluginHost } from './service.js'

/** A plugin that an administrator stopped. Its `id` is the plugin's, in lower case. */
interface StoppedRow {
  id: string
  createdAt: string
}

/** The administration of external plugins, and the host that runs them. */
export default definePlugin({
  id: 'plugins',
  tags: { plugins: 'Channel adapters and document extractors: install, watch, restart, roll back.' },
  provides: pluginHost,
  needs: { audit, metrics },
  collections: { stopped: collection.global<StoppedRow>() },
  settings: {
    dataDir: coreSettings.dataDir,
    enabled: setting.boolean('Service:Plugins:Enabled', { default: false, hot: true }),
    allowlist: setting.list('Service:Plugins:Allowlist', { default: [], hot: true }),
    directories: setting.list('Service:Plugins:Directories', { default: [], hot: true }),
    minimumTier: setting.choice('Service:Plugins:Sandbox:Minimum', TIERS, { default: 'node-permission', hot: true }),
    /** Plugins that may run without confinement where no sandbox can hold them. */
    allowUnconfined: setting.list('Service:Plugins:Sandbox:AllowUnconfined', { default: [], hot: true }),
    /** Public keys, as `service dev keygen` prints them. */
    trustedKeys: setting.list('Service:Plugins:TrustedKeys', { default: [], hot: true }),
    /** Only archives that one of the trusted keys signed may run. */
    requireSignature: setting.boolean('Service:Plugins:RequireSignature', { default: false, hot: true }),
    /** The most that any plugin may store in its data directory, whatever its manifest asks for. */
    maxDataDirectoryMb: setting.number('Service:Plugins:MaxDataDirectoryMb', { default: 1024, min: 1, hot: true }),
    experimental,
    /** Plugins that a second process stands by for, started and unconnected. */
    warmSpares: setting.list('Service:Plugins:WarmSpares', { default: [], hot: true }),
  },
  setup: async ({ needs, store, settings, log, routes, on, onStop }) => {
    const stopped = new Set((await store.stopped.find({}, { limit: 10_000 })).map(({ id }) => id))
    const host = new PluginHostCore({
      dataDir: settings.dataDir.get(),
      log,
      settings: () => ({
        enabled: settings.enabled.get(),
        allowlist: settings.allowlist.get(),
        directories: settings.directories.get(),
        minimumTier: settings.minimumTier.get(),
        allowUnconfined: settings.allowUnconfined.get(),
        trustedKeys: settings.trustedKeys.get(),
        requireSignature: settings.requireSignature.get(),
        maxDataDirectoryMb: settings.maxDataDirectoryMb.get(),
        experimental: settings.experimental.get(),
        warmSpares: settings.warmSpares.get(),
      }),
      stopped: {
        has: id => stopped.has(id.toLowerCase()),
        add: async id => {
          const key = id.toLowerCase()
          stopped.add(key)
          await store.stopped.updateOne({ id: key }, { $setOnInsert: { createdAt: new Date().toISOString() } }, { upsert: true })
        },
        remove: async id => {
          stopped.delete(id.toLowerCase())
          await store.stopped.deleteOne({ id: id.toLowerCase() })
        },
      },
    })
    const apply = (): void => {
      host.applySettings().catch((error: unknown) => {
        log.error({ err: error }, 'the changed plugin settings could not be applied')
      })
    }
    settings.directories.onChange(apply)
    const { enabled, allowlist, minimumTier, allowUnconfined, trustedKeys, requireSignature, warmSpares } = settings
    for (const hot of [enabled, allowlist, minimumTier, allowUnconfined, trustedKeys, requireSignature, warmSpares])
      hot.onChange(() => {
        host.scanSoon()
      })
    const warnOfKeys = (keys: readonly string[]): void => {
      for (const key of unreadableKeys(keys))
        log.warn(`${trustedKeys.key}: ${JSON.stringify(key)} is no Ed25519 public key, and trusts nobody`)
    }
    warnOfKeys(trustedKeys.get())
    trustedKeys.onChange(warnOfKeys)
    onStop(() => host.stop())
    onStop(needs.metrics.collect(() => pluginMetrics(host)))
    on(gatewayListening, () => host.start())
    routes(
      pluginRoutes(
        host,
        new Installer(host, settings.dataDir.get()),
        { enabled: settings.enabled, allowlist: settings.allowlist },
        needs.audit,
      ),
    )
    return createPluginHost(host)
  },
})
