import { createHash, randomBytes } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { z } from 'zod'
import { ConfigError } from '../../core/configLayers.js'
import { createFileAtomically, writeFileAtomically } from '../../core/files.js'

/** A root key: it wraps the key of each secret. */
export interface RootKey {
  /** Derived from the key, so that the same key has the same name wherever it is kept. */
  kid: string
  key: Uint8Array
}

const KEY_BYTES = 32
const GROUP_AND_OTHERS = 0o077

const KeyFile = z.object({ version: z.literal(1), keys: z.array(z.object({ kid: z.string(), key: z.string() })).min(1) })

/** Throws when the text is not the base64 of exactly 32 bytes. */
export const parseKey = (text: string): RootKey => {
  const key = Buffer.from(text, 'base64')
  if (key.length !== KEY_BYTES || !/^[A-Za-z0-9+/]+={0,2}$/.test(text)) throw new Error('a key is the base64 of exactly 32 bytes')
  return { kid: createHash('sha256').update('vault-key:').update(key).digest('base64url').slice(0, 16), key }
}

export const newKey = (): RootKey => parseKey(randomBytes(KEY_BYTES).toString('base64'))

/** The keys, the current one first; `null` when there is no file. Throws when others may read it or its content is damaged. */
export const readKeyFile = async (file: string): Promise<RootKey[] | null> => {
  const found = await stat(file).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null
    throw error
  })
  if (!found) return null
  if (process.platform !== 'win32' && (found.mode & GROUP_AND_OTHERS) !== 0)
    throw new ConfigError(
      `The vault key file ${file} can be read by others than its owner (mode ${(found.mode & 0o777).toString(8)}). Run: chmod 600 ${file}`,
    )
  try {
    const { keys } = KeyFile.parse(JSON.parse(await readFile(file, 'utf8')))
    return keys.map(({ kid, key }) => {
      const parsed = parseKey(key)
      if (parsed.kid !== kid) throw new Error(`the key named ${kid} is not the key that was written`)
      return parsed
    })
  } catch (error) {
    // The parser's message may quote the file's text, so it is not passed on.
    const why =
      error instanceof SyntaxError || error instanceof z.ZodError ? 'it is not the JSON that the gateway writes' : (error as Error).message
    throw new ConfigError(
      `The vault key file ${file} is damaged: ${why}. Restore it from a backup; without it the stored secrets cannot be opened`,
    )
  }
}

const render = (keys: readonly RootKey[]): string =>
  `${JSON.stringify({ version: 1, keys: keys.map(({ kid, key }) => ({ kid, key: Buffer.from(key).toString('base64') })) }, null, 2)}\n`

/** Replaces the file in one step, 0600 and synced. */
export const writeKeyFile = (file: string, keys: readonly RootKey[]): Promise<void> => writeFileAtomically(file, render(keys))

/** Creates the file with a new key unless another process was faster; either way the keys that now stand in it. */
export const createKeyFile = async (file: string): Promise<RootKey[]> => {
  await createFileAtomically(file, render([newKey()]))
  const keys = await readKeyFile(file)
  if (!keys) throw new Error(`The vault key file ${file} vanished right after it was created`)
  return keys
}
