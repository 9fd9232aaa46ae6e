import { createHash, createPrivateKey, createPublicKey, sign, verify, type KeyObject } from 'node:crypto'

/** How the file name of a plugin archive ends. It is a ZIP file. */
export const ARCHIVE_ENDING = '.service-plugin'
/** The folder of an archive that is about the archive and no part of the plugin. */
export const INTEGRITY_FOLDER = '.integrity/'
/** The SHA-256 digest of every other file in the archive. */
export const DIGESTS_FILE = `${INTEGRITY_FOLDER}digests.json`
/** An Ed25519 signature over the bytes of the digests' file. */
export const SIGNATURE_FILE = `${INTEGRITY_FOLDER}signature.json`

const DIGESTS_FORMAT = 'service-plugin-digests-1'
const SIGNATURE_FORMAT = 'service-plugin-signature-1'
const KEY_PREFIX = 'ed25519:'
const KEY_BYTES = 32
const SIGNATURE_BYTES = 64

export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

/** The text of `.integrity/digests.json`: the same files give the same bytes. `digests` maps names to SHA-256 in hex. */
export function writeDigests(digests: ReadonlyMap<string, string>): string {
  const sorted = [...digests].sort(([a], [b]) => (a < b ? -1 : 1))
  return `${JSON.stringify({ format: DIGESTS_FORMAT, files: Object.fromEntries(sorted) }, null, 2)}\n`
}

/** Reads `.integrity/digests.json`; `undefined` when it is anything else. */
export function readDigests(text: string): Map<string, string> | undefined {
  const { format, files } = parseObject(text)
  if (format !== DIGESTS_FORMAT || typeof files !== 'object' || files === null || Array.isArray(files)) return undefined
  const digests = new Map(Object.entries(files as Record<string, unknown>))
  const isWhole = [...digests.values()].every(digest => typeof digest === 'string' && /^[0-9a-f]{64}$/.test(digest))
  return isWhole ? (digests as Map<string, string>) : undefined
}

/** The text of `.integrity/signature.json`. `privateKey` is PEM. Throws when it is no Ed25519 key that can be read. */
export function writeSignature(digestsText: string, privateKey: string): string {
  const key = createPrivateKey(privateKey)
  if (key.asymmetricKeyType !== 'ed25519') throw new Error(`it is a key for ${key.asymmetricKeyType ?? 'something else'}, not Ed25519`)
  const signature = sign(null, Buffer.from(digestsText), key).toString('base64')
  return `${JSON.stringify({ format: SIGNATURE_FORMAT, key: publicKeyText(createPublicKey(key)), signature }, null, 2)}\n`
}

/** Whose signature this is; throws with the reason when it is not a good one over these digests. */
export function readSignature(text: string, digestsText: string): { key: string } {
  const { format, key, signature } = parseObject(text)
  const signer = typeof key === 'string' ? normalizePublicKey(key) : undefined
  if (format !== SIGNATURE_FORMAT || signer === undefined || typeof signature !== 'string') throw new Error(`${SIGNATURE_FILE} is damaged`)
  const bytes = Buffer.from(signature, 'base64')
  const isGood = bytes.length === SIGNATURE_BYTES && verify(null, Buffer.from(digestsText), publicKeyObject(signer), bytes)
  if (!isGood) throw new Error(`the signature in ${SIGNATURE_FILE} does not fit the digests: the archive was changed after it was signed`)
  return { key: signer }
}

/** How a public key is written in `Service:Plugins:TrustedKeys` and in an archive: `ed25519:` and its 32 bytes in base64. */
export function publicKeyText(key: KeyObject): string {
  const { x } = key.export({ format: 'jwk' })
  return KEY_PREFIX + Buffer.from(x ?? '', 'base64url').toString('base64')
}

/** The one spelling of a public key; `undefined` when the text is none. */
export function normalizePublicKey(text: string): string | undefined {
  const encoded = text.trim().startsWith(KEY_PREFIX) ? text.trim().slice(KEY_PREFIX.length) : text.trim()
  if (!/^[A-Za-z0-9+/_-]{43}=?$/.test(encoded)) return undefined
  const bytes = Buffer.from(encoded, 'base64')
  return bytes.length === KEY_BYTES ? KEY_PREFIX + bytes.toString('base64') : undefined
}

const publicKeyObject = (normal: string): KeyObject => {
  const x = Buffer.from(normal.slice(KEY_PREFIX.length), 'base64').toString('base64url')
  return createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
}

const parseObject = (text: string): Record<string, unknown> => {
  try {
    const value = JSON.parse(text) as unknown
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
  } catch {
    return {}
  }
}
