import { join } from 'node:path'
import { fileKeys, type RootKeys } from '../../../plugins/vault/rootKeys.js'
import { checkKeys, SecretVault, type SecretRow } from '../../../plugins/vault/service.js'
import { createLog } from '../../../core/log.js'
import { collection, type Collection, type Owned, type ScopedHandle } from '../../../core/store/collection.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { openCollection } from '../../support/store.js'

export interface OpenedVault {
  vault: SecretVault
  /** What is on disk, of everybody. */
  rows: Collection<Owned<SecretRow>>
  keys: RootKeys
  logged: () => string
  close: () => Promise<void>
}

export const secretsSpec = collection.user<SecretRow>({ indexes: [{ fields: { name: 1 }, unique: true }] })

/** A vault over a store and a key file in the directory, without a gateway around it. */
export const openVault = async (directory: string, supplied?: RootKeys): Promise<OpenedVault> => {
  const store = await openSqliteStore({ file: join(directory, 'store.db') })
  const handle: ScopedHandle<SecretRow> = await openCollection(store, 'vault.secrets', secretsSpec)
  const keys: RootKeys = supplied ?? (await fileKeys(join(directory, 'vault.key'), () => checkKeys(handle, keys)))
  const lines: string[] = []
  const log = createLog({ level: 'debug', write: line => lines.push(line) })
  const vault = new SecretVault(handle, keys, log)
  return { vault, logged: () => lines.join(''), rows: handle.everyone, keys, close: () => store.close() }
}
