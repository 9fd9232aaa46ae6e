import { randomBytes } from 'node:crypto'
import { newId } from '../id.js'
import { collection, DuplicateKey, type Collection } from '../store/collection.js'

/** What the gateways of one store have in common. */
export interface Installation {
  id: string
  /** Tells it from others that use the same Redis. */
  name: string
  /** Proves to its gateways that a message comes from one of them; base64. Who can read the store needs no such message. */
  key: string
}

export const installations = collection.global<Installation>({})

const ID = 'installation'

/** The installation of this store, made by the first gateway that asks. */
export const installationOf = async (rows: Collection<Installation>): Promise<{ name: string; key: Buffer }> => {
  try {
    await rows.insertOne({ id: ID, name: newId('ins'), key: randomBytes(32).toString('base64') })
  } catch (error) {
    if (!(error instanceof DuplicateKey)) throw error
  }
  const row = await rows.findOne({ id: ID })
  if (!row) throw new Error('The installation cannot be read back from the store')
  return { name: row.name, key: Buffer.from(row.key, 'base64') }
}
