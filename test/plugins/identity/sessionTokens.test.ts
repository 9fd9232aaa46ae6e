import assert from 'node:assert/strict'
import { generateKeyPairSync } from 'node:crypto'
import { SignJWT, UnsecuredJWT, decodeJwt, decodeProtectedHeader, type JWTPayload } from 'jose'
import { identity } from '../../../plugins/identity/contract.js'
import { MAX_KEYS } from '../../../plugins/identity/signingKeys.js'
import { GATEWAY_OWNER, vault } from '../../../plugins/vault/contract.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { DAY_MS, HOUR_MS, startClock } from './clock.js'
import { identityPlugins } from './identityPlugins.js'
import { statusOf } from './people.js'

const kidOf = (token: string): string => decodeProtectedHeader(token).kid ?? ''

describe('session tokens', () => {
  let gateway: TestGateway
  let good = ''
  let claims: JWTPayload
  let kid = ''
  let secret: Uint8Array
  before(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
    good = await login(gateway)
    claims = decodeJwt(good)
    kid = kidOf(good)
    const stored = await gateway.service(vault).get(GATEWAY_OWNER, `identity/signing/${kid}`)
    secret = Buffer.from(stored ?? '', 'base64url')
  })
  after(() => gateway.stop())

  const sign = (changes: Record<string, unknown>, header: { alg?: string; kid?: string } = {}, key = secret): Promise<string> =>
    new SignJWT({ ...claims, ...changes }).setProtectedHeader({ alg: 'HS256', typ: 'JWT', kid, ...header }).sign(key)
  const now = (): number => Math.floor(Date.now() / 1000)

  it('are accepted as the gateway makes them, also when signed again with its key', async () => {
    assert.equal(await statusOf(gateway, good), 200)
    assert.equal(await statusOf(gateway, await sign({ iat: now() - 5 })), 200)
  })

  it('are refused without a signature, with another algorithm, and with a key that is not the one named', async () => {
    const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
    const publicPem = Buffer.from(publicKey.export({ type: 'spki', format: 'pem' }))
    const rsa = await new SignJWT(claims).setProtectedHeader({ alg: 'RS256', typ: 'JWT', kid }).sign(privateKey)
    const [header = '', payload = ''] = good.split('.')
    const none = Buffer.from(JSON.stringify({ alg: 'none', typ: 'JWT', kid })).toString('base64url')
    const bad = {
      unsecured: new UnsecuredJWT(claims).encode(),
      'alg none over a signed payload': `${none}.${payload}.`,
      'alg none in capitals': `${Buffer.from(JSON.stringify({ alg: 'NONE', kid })).toString('base64url')}.${payload}.`,
      'no signature': `${header}.${payload}.`,
      RS256: rsa,
      'HS256 with a public key as the secret': await sign({}, {}, publicPem),
      'HS512 with the right key': await sign({}, { alg: 'HS512' }, Buffer.concat([secret, secret])),
      'a foreign kid': await sign({}, { kid: 'someoneElse' }),
      'no kid': await new SignJWT(claims).setProtectedHeader({ alg: 'HS256' }).sign(secret),
      'a kid that is a path': await sign({}, { kid: '../../etc/passwd' }),
      'a kid of the prototype': await sign({}, { kid: '__proto__' }),
      'an empty key': await sign({}, {}, Buffer.from('x')),
    }
    for (const [what, token] of Object.entries(bad)) assert.equal(await statusOf(gateway, token), 401, what)
    assert.equal(await statusOf(gateway, good), 200)
  })

  it('are refused for another issuer or audience, before and after their time, and for another session', async () => {
    const bad = {
      'another issuer': { iss: 'https://id.example.org' },
      'no issuer': { iss: undefined },
      'no audience': { aud: undefined },
      'another audience': { aud: 'another-service' },
      'expired long ago': { exp: now() - 3600 },
      'expired just now': { exp: now() - 1 },
      'not yet good': { nbf: now() + 3600 },
      'no expiry': { exp: undefined },
      'an expiry that is text': { exp: 'never' },
      'no session': { sid: undefined },
      'another session': { sid: 'lgn_other' },
      'a session that is no text': { sid: { $ne: '' } },
      'another token id': { jti: 'jwt_other' },
      'another user': { sub: 'usr_other' },
    }
    for (const [what, changes] of Object.entries(bad)) assert.equal(await statusOf(gateway, await sign(changes)), 401, what)
  })

  it('are refused when they are damaged, oversized or no token at all', async () => {
    const [header = '', , signature = ''] = good.split('.')
    const other = Buffer.from(JSON.stringify({ ...claims, sub: 'usr_other' })).toString('base64url')
    for (const token of [`${header}.${other}.${signature}`, `${good}A`, good.slice(1), 'x', '..', 'a.b.c', `${good}.${'A'.repeat(5000)}`])
      assert.equal(await statusOf(gateway, token), 401, token.slice(0, 60))
    for (const authorization of ['Bearer', 'Basic YTpi', good, `Token ${good}`])
      assert.equal(
        (await gateway.call('GET', '/auth/me', { headers: { Authorization: authorization } })).status,
        401,
        authorization.slice(0, 10),
      )
    assert.equal((await gateway.call('GET', `/auth/me?access_token=${good}`)).status, 401)
  })
})

describe('the rotation of the signing key', () => {
  let gateway: TestGateway
  let clock: ReturnType<typeof startClock>
  beforeEach(async () => {
    clock = startClock()
    gateway = await startGateway({
      plugins: identityPlugins,
      settings: { 'Service:Auth:SessionLifetime': '20d', 'Service:Auth:IdleTimeout': '30d' },
    })
  })
  afterEach(async () => {
    await gateway.stop()
    clock.restore()
  })
  const secretOf = (token: string): Promise<string | null> => gateway.service(vault).get(GATEWAY_OWNER, `identity/signing/${kidOf(token)}`)

  it('keeps tokens of the old key good for their whole lifetime, also across a restart, and then forgets it', async () => {
    const old = await login(gateway)
    await gateway.service(identity).rotateSigningKey()
    const fresh = await login(gateway)
    assert.notEqual(kidOf(fresh), kidOf(old))
    await gateway.stop({ keep: true })
    gateway = await startGateway({ plugins: identityPlugins, dataDir: gateway.dataDir, settings: { 'Service:Auth:IdleTimeout': '30d' } })
    clock.pass(20 * DAY_MS - HOUR_MS)
    assert.equal(await statusOf(gateway, old), 200)
    assert.equal(await statusOf(gateway, fresh), 200)
    clock.pass(2 * HOUR_MS)
    assert.equal(await statusOf(gateway, old), 401)
    await login(gateway)
    clock.pass(HOUR_MS)
    await login(gateway)
    assert.equal(await secretOf(old), null)
    assert.notEqual(await secretOf(fresh), null)
  })

  it('is refused before it would push out a key that is still needed, and the newest one goes on signing', async () => {
    const first = await login(gateway)
    for (let count = 1; count < MAX_KEYS; count += 1) {
      clock.pass(1000)
      await gateway.service(identity).rotateSigningKey()
    }
    await assert.rejects(gateway.service(identity).rotateSigningKey(), { code: 'conflict' })
    const last = await login(gateway)
    clock.pass(HOUR_MS)
    const later = await login(gateway)
    assert.equal(kidOf(later), kidOf(last))
    assert.equal(await statusOf(gateway, last), 200)
    assert.equal(await statusOf(gateway, first), 200)
  })
})
