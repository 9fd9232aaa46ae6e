import assert from 'node:assert/strict'
import { request } from 'node:http'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { temporaryDirectory } from '../../support/store.js'
import { identityPlugins } from './identityPlugins.js'
import { addUser } from './people.js'

describe('AutoAdmin', () => {
  let gateway: TestGateway
  let port = 0
  before(async () => {
    const settings = { 'Service:Auth:AutoAdmin': 'true', 'Service:Http:CorsOrigins': 'http://localhost:5173' }
    gateway = await startGateway({ plugins: identityPlugins, settings })
    port = Number(new URL(gateway.url).port)
  })
  after(() => gateway.stop())

  /** fetch sets Host and Origin by itself; a raw request says what it is told to. */
  const ask = (headers: Record<string, string>): Promise<number> =>
    new Promise((resolve, reject) => {
      request(
        { host: '127.0.0.1', port, path: '/api/admin/users', headers: { host: `localhost:${String(port)}`, ...headers } },
        response => {
          response.resume()
          resolve(response.statusCode ?? 0)
        },
      )
        .on('error', reject)
        .end()
    })

  it('makes requests without credentials the administrator', async () => {
    const me = await gateway.call('GET', '/auth/me')
    assert.equal(me.status, 200)
    assert.equal(me.body.email, 'admin@localhost')
    for (const host of [`localhost:${String(port)}`, `127.0.0.1:${String(port)}`, `[::1]:${String(port)}`, 'localhost'])
      assert.equal(await ask({ host }), 200, host)
  })

  it('does not let pages of other sites in, by a name of theirs or across origins', async () => {
    for (const host of ['evil.example', `evil.example:${String(port)}`, '127.0.0.1.evil.example', 'localhost.evil.example', '10.0.0.1'])
      assert.equal(await ask({ host }), 401, host)
    for (const origin of [
      'https://evil.example',
      'null',
      `https://localhost:${String(port)}`,
      'http://localhost:1',
      'http://127.0.0.1:5173',
    ])
      assert.equal(await ask({ origin }), 401, origin)
    for (const site of ['cross-site', 'same-site']) assert.equal(await ask({ 'sec-fetch-site': site }), 401, site)
    assert.equal(await ask({ origin: `http://localhost:${String(port)}`, 'sec-fetch-site': 'same-origin' }), 200)
    assert.equal(await ask({ origin: 'http://localhost:5173', 'sec-fetch-site': 'cross-site' }), 200)
  })

  it('does not let others in through a proxy on this machine', async () => {
    for (const name of ['forwarded', 'x-forwarded-for', 'x-forwarded-host', 'x-real-ip', 'via'])
      assert.equal(await ask({ [name]: name === 'via' ? '1.1 proxy' : '203.0.113.9' }), 401, name)
  })

  it('does not replace a credential that is bad', async () => {
    for (const authorization of ['Bearer nonsense', 'Basic YTpi', 'Bearer', 'sk_x'])
      assert.equal(await ask({ authorization }), 401, authorization)
  })

  it('follows the administrators: a removed one is replaced by another', async () => {
    const other = await addUser(gateway, await login(gateway), { roles: ['Admin'] })
    const first = (await gateway.call('GET', '/auth/me')).body.id as string
    assert.equal((await gateway.call('DELETE', `/admin/users/${first}`)).status, 204)
    assert.equal((await gateway.call('GET', '/auth/me')).body.id, other.id)
    assert.equal((await gateway.call('DELETE', `/admin/users/${other.id}`)).status, 409)
  })
})

describe('AutoAdmin, when the gateway can be reached from elsewhere', () => {
  it('refuses the start, naming both settings', async () => {
    const directory = await temporaryDirectory()
    for (const host of ['0.0.0.0', '::', '192.0.2.1', 'gateway.example', '127.0.0.1.example']) {
      const settings = { 'Service:Auth:AutoAdmin': 'true', 'Service:Host': host }
      await assert.rejects(
        startGateway({ plugins: identityPlugins, dataDir: directory.path, settings }),
        /Service:Auth:AutoAdmin .*Set Service:Host to 127\.0\.0\.1/,
        host,
      )
    }
    await directory.remove()
  })

  it('is off by default', async () => {
    const gateway = await startGateway({ plugins: identityPlugins })
    assert.equal((await gateway.call('GET', '/auth/me')).status, 401)
    await gateway.stop()
  })
})
