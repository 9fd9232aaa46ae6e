/** What a file is, by its first bytes. */
interface Format {
  extension: string
  mimeType: string
}

const SIGNATURES: readonly (Format & { bytes: Buffer; at?: number })[] = [
  { extension: 'png', mimeType: 'image/png', bytes: Buffer.from('\x89PNG\r\n\x1a\n', 'latin1') },
  { extension: 'jpg', mimeType: 'image/jpeg', bytes: Buffer.from([0xff, 0xd8, 0xff]) },
  { extension: 'gif', mimeType: 'image/gif', bytes: Buffer.from('GIF8') },
  { extension: 'webp', mimeType: 'image/webp', bytes: Buffer.from('WEBP'), at: 8 },
  { extension: 'pdf', mimeType: 'application/pdf', bytes: Buffer.from('%PDF-') },
  { extension: 'zip', mimeType: 'application/zip', bytes: Buffer.from('PK\x03\x04', 'latin1') },
]
/** Base64 of the bytes that the signatures need. */
const HEAD_LENGTH = 24
const HEAD = /^[A-Za-z0-9+/]{24}$/

/** The format of a file in base64; `undefined` for what is none. `isEncoded`: it is one, whatever it is. */
export const formatOf = (text: string, isEncoded: boolean): Format | undefined => {
  const head = text.slice(0, HEAD_LENGTH)
  const first = HEAD.test(head) ? Buffer.from(head, 'base64') : Buffer.alloc(0)
  const found = SIGNATURES.find(({ bytes, at = 0 }) => first.subarray(at, at + bytes.length).equals(bytes))
  if (found) return { extension: found.extension, mimeType: found.mimeType }
  return isEncoded ? { extension: 'bin', mimeType: 'application/octet-stream' } : undefined
}
