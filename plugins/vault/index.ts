import { join } from 'node:path'
import { setting } from '../../core/config.js'
import { definePlugin } from '../../core/plugin.js'
import { registerSecret } from '../../core/redaction.js'
import { coreSettings } from '../../core/settings.js'
import { collection } from '../../core/store/collection.js'
import { audit } from '../audit/contract.js'
import { vault } from './contract.js'
import { vaultRoutes } from './routes.js'
import { environmentKeys, fileKeys, type RootKeys } from './rootKeys.js'
import { checkKeys, SecretVault, type SecretRow } from './service.js'

export default definePlugin({
  id: 'vault',
  provides: vault,
  needs: { audit },
  collections: { secrets: collection.user<SecretRow>({ indexes: [{ fields: { name: 1 }, unique: true }] }) },
  settings: {
    dataDir: coreSettings.dataDir,
    /** The base64 of 32 bytes; several comma-separated: the first is current. Empty: the file `vault.key` in the data directory. */
    key: setting.string('Service:Vault:Key', { default: '', secret: true }),
  },
  setup: async ({ needs, settings, store, log, onStop, routes }) => {
    const supplied = settings.key.get()
    for (const part of supplied.split(',')) registerSecret(part.trim())
    const keys: RootKeys = supplied
      ? environmentKeys(supplied)
      : await fileKeys(join(settings.dataDir.get(), 'vault.key'), () => checkKeys(store.secrets, keys))
    await checkKeys(store.secrets, keys)
    const secrets = new SecretVault(store.secrets, keys, log)
    onStop(() => secrets.stop())
    // In the background: every key is at hand meanwhile, so nothing has to wait for it.
    secrets.resume().then(
      moved => {
        if (moved !== null)
          log.info(`${moved} secrets were encrypted anew with the current key of ${keys.source}: it needs no other one now`)
      },
      (error: unknown) => {
        log.error({ err: error }, 'the secrets could not all be encrypted anew with the current key')
      },
    )
    routes(vaultRoutes(secrets, needs.audit))
    return secrets
  },
})
