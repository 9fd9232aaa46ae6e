import { readFile, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { crc32, deflateRawSync } from 'node:zlib'
import { createPublicKey, generateKeyPairSync } from 'node:crypto'
import { DIGESTS_FILE, publicKeyText, sha256, SIGNATURE_FILE, writeDigests, writeSignature } from '../../sdk/archiveFormat.js'

const PROGRAM = fileURLToPath(new URL('../fixtures/plugins/misbehaving/misbehaving.mjs', import.meta.url))

/** One entry, with everything that a good archive never has. */
export interface ZipEntry {
  name: string | Buffer
  content?: string | Buffer
  /** Unix mode with the file's type; 0 says nothing. */
  mode?: number
  deflate?: boolean
  /** What the archive says, when it is not the truth. */
  checksum?: number
  size?: number
  flags?: number
}

const UTF8_NAMES = 0x800

/** A ZIP file by the letter, of whatever is asked: no check stands in the way. */
export const zipOf = (entries: readonly ZipEntry[]): Buffer => {
  const locals: Buffer[] = []
  const centrals: Buffer[] = []
  let offset = 0
  for (const { name, content = '', mode = 0o100644, deflate = false, checksum, size, flags = 0 } of entries) {
    const [nameBytes, plain] = [Buffer.from(name), Buffer.from(content)]
    const data = deflate ? deflateRawSync(plain) : plain
    const common = Buffer.alloc(26)
    common.writeUInt16LE(20, 0)
    common.writeUInt16LE(UTF8_NAMES | flags, 2)
    common.writeUInt16LE(deflate ? 8 : 0, 4)
    common.writeUInt32LE(checksum ?? crc32(plain), 10)
    common.writeUInt32LE(data.length, 14)
    common.writeUInt32LE(size ?? plain.length, 18)
    common.writeUInt16LE(nameBytes.length, 22)
    const local = Buffer.concat([Buffer.from('PK\x03\x04'), common, nameBytes, data])
    const rest = Buffer.alloc(14)
    rest.writeUInt32LE((mode << 16) >>> 0, 6)
    rest.writeUInt32LE(offset, 10)
    centrals.push(Buffer.concat([Buffer.from('PK\x01\x02'), Buffer.from([20, 3]), common, rest, nameBytes]))
    locals.push(local)
    offset += local.length
  }
  const directory = Buffer.concat(centrals)
  const end = Buffer.alloc(22)
  end.write('PK\x05\x06', 0, 'latin1')
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(directory.length, 12)
  end.writeUInt32LE(offset, 16)
  return Buffer.concat([...locals, directory, end])
}

export interface TestKey {
  pem: string
  publicKey: string
}

export const makeKey = (): TestKey => {
  const { privateKey } = generateKeyPairSync('ed25519')
  return {
    pem: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
    publicKey: publicKeyText(createPublicKey(privateKey)),
  }
}

/** Files as `service dev build` archives them: with digests, and a signature when there is a key. */
export const sealed = (files: Record<string, string | Buffer>, key?: TestKey): ZipEntry[] => {
  const entries = Object.entries(files).map(([name, content]) => ({ name, content }))
  const digests = writeDigests(new Map(entries.map(({ name, content }) => [name, sha256(Buffer.from(content))])))
  const signature = key ? [{ name: SIGNATURE_FILE, content: writeSignature(digests, key.pem) }] : []
  return [...entries, { name: DIGESTS_FILE, content: digests }, ...signature]
}

/** The misbehaving program as an extractor in a sealed archive. Other text makes other content of the same version. */
export const pluginArchive = async ({
  name,
  version = '1.0.0',
  text = '',
  mode = 'behave',
  key,
  manifest = {},
}: PluginArchive): Promise<Buffer> => {
  const content = { name, version, pluginInterface: 'DocumentExtractor', supportedExtensions: ['.txt'], metadata: { mode }, ...manifest }
  const files = {
    'manifest.json': JSON.stringify(content),
    [`${name}.mjs`]: await readFile(PROGRAM),
    ...(text ? { 'note.txt': text } : {}),
  }
  return zipOf(sealed(files, key).map(entry => ({ ...entry, deflate: true })))
}

export interface PluginArchive {
  name: string
  version?: string
  text?: string
  mode?: string
  key?: TestKey
  manifest?: Record<string, unknown>
}

export const writePluginArchive = async (file: string, archive: PluginArchive): Promise<void> =>
  writeFile(file, await pluginArchive(archive))
