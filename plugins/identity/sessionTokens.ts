import { LRUCache } from 'lru-cache'
import { unauthenticated } from '../../core/errors.js'
import type { SigningKeys } from './signingKeys.js'

/** What a token says, once its signature has been checked. */
export interface TokenClaims {
  readonly userId: string
  readonly sessionId: string
  readonly tokenId: string
  readonly expiresAtMs: number
}

/** Verified tokens remembered; checking one again costs fifty times as much as finding it. */
const MAX_VERIFIED = 10_000
/** Ours are below 400 characters. */
const MAX_TOKEN_LENGTH = 2048
const ALGORITHM = 'HS256'
/** Issuer and audience in one, so that a token made for anything else is none of ours (RFC 8725, 3.8 and 3.9). */
const GATEWAY = 'agent-gateway'

/** Signs and verifies the JWTs that name sessions. */
export class SessionTokens {
  readonly #keys: SigningKeys
  readonly #verified = new LRUCache<string, TokenClaims>({ max: MAX_VERIFIED })

  constructor(keys: SigningKeys) {
    this.#keys = keys
  }

  async sign({ userId, sessionId, tokenId, expiresAtMs }: TokenClaims): Promise<string> {
    const { SignJWT } = await import('jose')
    const now = Date.now()
    const { kid, secret } = await this.#keys.toSign(expiresAtMs - now)
    return new SignJWT({ sid: sessionId })
      .setProtectedHeader({ alg: ALGORITHM, typ: 'JWT', kid })
      .setIssuer(GATEWAY)
      .setAudience(GATEWAY)
      .setSubject(userId)
      .setJti(tokenId)
      .setIssuedAt(Math.floor(now / 1000))
      .setExpirationTime(Math.floor(expiresAtMs / 1000))
      .sign(secret)
  }

  /** At once for a token seen before. Throws, or rejects with, `unauthenticated` for anything that is not a current token of ours. */
  verify(token: string): TokenClaims | Promise<TokenClaims> {
    const known = this.#verified.get(token)
    if (!known) return this.#verifyNew(token)
    if (known.expiresAtMs > Date.now()) return known
    this.#verified.delete(token)
    throw unauthenticated()
  }

  async #verifyNew(token: string): Promise<TokenClaims> {
    if (token.length > MAX_TOKEN_LENGTH) throw unauthenticated()
    const { errors, jwtVerify } = await import('jose')
    try {
      const { payload } = await jwtVerify<{ sid: unknown }>(
        token,
        async ({ kid }) => {
          const key = kid === undefined ? undefined : await this.#keys.find(kid)
          if (!key) throw new errors.JWSInvalid('the token names no key of ours')
          return key.secret
        },
        { algorithms: [ALGORITHM], issuer: GATEWAY, audience: GATEWAY, requiredClaims: ['sub', 'sid', 'jti', 'exp'] },
      )
      const { sub = '', sid, jti = '', exp = 0 } = payload
      if (typeof sid !== 'string') throw unauthenticated()
      const claims = { userId: sub, sessionId: sid, tokenId: jti, expiresAtMs: exp * 1000 }
      this.#verified.set(token, claims)
      return claims
    } catch (error) {
      if (error instanceof errors.JOSEError) throw unauthenticated()
      throw error
    }
  }
}
