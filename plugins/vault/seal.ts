import type { Owner } from '../../core/store/collection.js'
import type { RootKey } from './keyFile.js'

/** A sealed value: a flattened JWE without its additional data, which is what the record must say it is. */
export interface Sealed {
  protected: string
  encrypted_key: string
  iv: string
  ciphertext: string
  tag: string
}

const WRAP = 'A256GCMKW'
const ENCRYPT = 'A256GCM'

/** Bound into the ciphertext: a value copied to another name or owner does not open. */
const boundTo = ({ tenant, userId }: Owner, name: string): Buffer => Buffer.from(JSON.stringify(['vault', tenant, userId, name]))

/** Encrypts with a fresh key of its own, wrapped by the root key. */
export const seal = async (root: RootKey, owner: Owner, name: string, value: string): Promise<Sealed> => {
  const { FlattenedEncrypt } = await import('jose')
  const jwe = await new FlattenedEncrypt(Buffer.from(value))
    .setProtectedHeader({ alg: WRAP, enc: ENCRYPT, kid: root.kid })
    .setAdditionalAuthenticatedData(boundTo(owner, name))
    .encrypt(root.key)
  const { encrypted_key = '', iv = '', tag = '' } = jwe
  return { protected: jwe.protected ?? '', encrypted_key, iv, ciphertext: jwe.ciphertext, tag }
}

/** Throws when the value was changed, or sealed for another name or owner. */
export const unseal = async (root: RootKey, owner: Owner, name: string, sealed: Sealed): Promise<string> => {
  const { flattenedDecrypt } = await import('jose')
  const jwe = { ...sealed, aad: boundTo(owner, name).toString('base64url') }
  const { plaintext } = await flattenedDecrypt(jwe, root.key, { keyManagementAlgorithms: [WRAP], contentEncryptionAlgorithms: [ENCRYPT] })
  return Buffer.from(plaintext).toString()
}
