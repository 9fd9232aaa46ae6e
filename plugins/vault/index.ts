import { join } from 'node:path'
import { setting } from '../../core/config.js'
import { definePlugin } from '../../core/plugin.js'
import { registerSecret } from '../../core/redaction.js'
import { coreSettings } from '../../core/settings.js'
import { collection } from '../../core/store/collection.js'
import { vault } from './contract.js'
import { environmentKeys, fileKeys, type RootKeys } from './rootKeys.js'
import { checkKeys, SecretVault, type SecretRow } from './service.js'

export default definePlugin({
  id: 'vault',
  provides: vault,
  collections: { secrets: collection.user<SecretRow>({ indexes: [{ fields: { name: 1 }, unique: true }] }) },
  settings: {
    dataDir: coreSettings.dataDir,
    /** The base64 of 32 bytes; several comma-separated: the first is current. Empty: the file `vault.key` in the data directory. */
    key: setting.string('Service:Vault:Key', { default: '', secret: true }),
  },
  setup: async ({ settings, store }) => {
    const supplied = settings.key.get()
    for (const part of supplied.split(',')) registerSecret(part.trim())
    const keys: RootKeys = supplied
      ? environmentKeys(supplied)
      : await fileKeys(join(settings.dataDir.get(), 'vault.key'), () => checkKeys(store.secrets, keys))
    await checkKeys(store.secrets, keys)
    return new SecretVault(store.secrets, keys)
  },
})
