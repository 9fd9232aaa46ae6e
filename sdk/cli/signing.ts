import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { mkdir, open, readFile, rm, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { publicKeyText, writeSignature } from '../archiveFormat.js'
import { CliError } from './project.js'

/** Writes a new private key for its owner only, never over an existing file. Returns the public key. */
export async function generateKey(file: string): Promise<string> {
  const { privateKey } = generateKeyPairSync('ed25519')
  const cannot = (error: unknown): never => {
    throw new CliError(`${file} cannot be written: ${(error as Error).message}. Name another file with --out`)
  }
  await mkdir(dirname(file), { recursive: true }).catch(cannot)
  const handle = await open(file, 'wx', 0o600).catch((error: unknown) => {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST')
      throw new CliError(`${file} is there already: name another file with --out, a key is never written over`)
    return cannot(error)
  })
  try {
    await handle.writeFile(privateKey.export({ type: 'pkcs8', format: 'pem' }))
    await handle.sync()
  } catch (error) {
    await rm(file, { force: true })
    throw error
  } finally {
    await handle.close()
  }
  return publicKeyText(createPublicKey(privateKey))
}

/** Signs the text of an archive's digests. */
export type Signer = (digests: string) => string

/** Reads a private key, which nobody but its owner may read. Returns what signs the text of an archive's digests. */
export async function readSigner(file: string): Promise<Signer> {
  const stats = await stat(file).catch(() => undefined)
  if (!stats?.isFile()) throw new CliError(`${file} cannot be read: make a key with service dev keygen`)
  if (process.platform !== 'win32' && (stats.mode & 0o077) !== 0)
    throw new CliError(`${file} may be read or written by others than its owner: chmod 600 it`)
  const pem = await readFile(file, 'utf8').catch((error: unknown) => {
    throw new CliError(`${file} cannot be read: ${(error as Error).message}`)
  })
  const sign = (digests: string): string => {
    try {
      return writeSignature(digests, pem)
    } catch (error) {
      const why = /asn1|decoder|pem|passphrase|unsupported/i.test((error as Error).message)
        ? 'it holds no unencrypted PEM key'
        : (error as Error).message
      throw new CliError(`${file} cannot sign: ${why}. Make a key with service dev keygen`)
    }
  }
  // Before anything is built.
  sign('')
  return sign
}
