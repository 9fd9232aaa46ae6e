import { ConfigError } from '../../core/configLayers.js'
import { removeDrafts } from '../../core/files.js'
import { createKeyFile, newKey, parseKey, readKeyFile, writeKeyFile, type RootKey } from './keyFile.js'

/** Where the root keys come from: the environment (comma-separated, first is current) or a file that the gateway keeps. */
export interface RootKeys {
  /** Shown in messages. */
  readonly source: string
  /** Kids of the keys that can open something now. */
  readonly kids: readonly string[]
  find(kid: string): RootKey | undefined
  /** The key that new secrets are wrapped with; the file is created at the first call. */
  current(): Promise<RootKey>
  /** Makes a new current key beside the old ones, durably, where this is ours to do; with keys of the environment the first one stays. */
  advance(): Promise<RootKey>
  /** Forgets every key but the current one and those named, durably; does nothing with keys of the environment. */
  keepOnly(kids: ReadonlySet<string>): Promise<void>
}

/** Keys that the operator supplies. Throws naming the setting when one is malformed. */
export const environmentKeys = (text: string): RootKeys => {
  const source = 'the setting Service:Vault:Key'
  const keys = text
    .split(',')
    .map(part => part.trim())
    .filter(Boolean)
    .map(part => {
      try {
        return parseKey(part)
      } catch (error) {
        throw new ConfigError(`${source} is not valid: ${(error as Error).message} (make one with: openssl rand -base64 32)`)
      }
    })
  const [first] = keys
  if (!first) throw new ConfigError(`${source} holds no key`)
  return {
    source,
    kids: keys.map(({ kid }) => kid),
    find: kid => keys.find(key => key.kid === kid),
    current: () => Promise.resolve(first),
    advance: () => Promise.resolve(first),
    keepOnly: () => Promise.resolve(),
  }
}

/** Keys in a 0600 file, created at the first use. Throws when the file is there but not usable. */
export const fileKeys = async (file: string, mayCreate: () => Promise<void>): Promise<RootKeys> => {
  let keys = (await readKeyFile(file)) ?? []
  await removeDrafts(file)
  let creating: Promise<RootKey[]> | undefined

  const create = async (): Promise<RootKey[]> => {
    await mayCreate()
    return createKeyFile(file)
  }

  const current = async (): Promise<RootKey> => {
    if (keys.length === 0) {
      creating ??= create().finally(() => (creating = undefined))
      keys = await creating
    }
    const [first] = keys
    if (!first) throw new Error(`The vault key file ${file} holds no key`)
    return first
  }

  return {
    source: `the vault key file ${file}`,
    get kids() {
      return keys.map(({ kid }) => kid)
    },
    find: kid => keys.find(key => key.kid === kid),
    current,
    async advance() {
      await current()
      const next = [newKey(), ...keys]
      await writeKeyFile(file, next)
      keys = next
      return current()
    },
    async keepOnly(kids) {
      const next = keys.filter(({ kid }, index) => index === 0 || kids.has(kid))
      if (next.length === keys.length) return
      await writeKeyFile(file, next)
      keys = next
    },
  }
}
