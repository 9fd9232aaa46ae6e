import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'

/** 256 random bits. */
const SECRET_BYTES = 32
const NODE_ID = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/
/** Words that stand where a node's id stands in a path. */
const RESERVED = ['me', 'pending', 'pairing', 'commands', 'update-manifest']

export const isNodeId = (id: string): boolean => NODE_ID.test(id) && !RESERVED.includes(id)

export const newSecret = (): string => randomBytes(SECRET_BYTES).toString('base64url')

export const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('base64url')

/** What is compared with where nothing is known, so that this takes as long. */
const NOTHING = hashOf('')

/** Whether a hash is the stored one, in time that tells nothing. `null`: nothing is stored, and nothing matches. */
export const matches = (hash: string, stored: string | null): boolean => {
  const isEqual = timingSafeEqual(Buffer.from(hash), Buffer.from(stored ?? NOTHING))
  return isEqual && stored !== null
}

export const tokenOf = (nodeId: string, secret: string): string => `${nodeId}.${secret}`

/** The parts of `{nodeId}.{secret}`; `undefined` for what is no token. */
export const parseToken = (token: string | undefined): { nodeId: string; secret: string } | undefined => {
  if (token === undefined || token.length > 512) return undefined
  const dot = token.indexOf('.')
  const nodeId = token.slice(0, Math.max(dot, 0))
  const secret = token.slice(dot + 1)
  return isNodeId(nodeId) && secret !== '' ? { nodeId, secret } : undefined
}
