import assert from 'node:assert/strict'
import { login, startGateway, type Answer, type TestGateway } from '../../support/gateway.js'
import { addUser, newcomer, statusOf, type Person } from './people.js'

describe('tenants', () => {
  let gateway: TestGateway
  let admin = ''
  let acmeAdmin: Person & { token: string }
  let acmeUser: Person & { token: string }
  let otherAdmin: Person & { token: string }
  let otherUser: Person & { token: string }
  before(async () => {
    gateway = await startGateway()
    admin = await login(gateway)
    for (const slug of ['acme', 'other'])
      assert.equal((await gateway.call('POST', '/admin/tenants', { token: admin, body: { slug } })).status, 201)
    acmeAdmin = await newcomer(gateway, admin, { roles: ['Admin'], tenant: 'acme' })
    acmeUser = await newcomer(gateway, admin, { tenant: 'acme' })
    otherAdmin = await newcomer(gateway, admin, { roles: ['Admin'], tenant: 'other' })
    otherUser = await newcomer(gateway, admin, { tenant: 'other' })
  })
  after(() => gateway.stop())

  const inTenant = (slug: string, token: string, path = '/auth/me'): Promise<Answer> =>
    gateway.call('GET', path, { token, headers: { 'X-Service-Tenant': slug } })

  it('exist once by their slug, which is well-formed', async () => {
    const made = await Promise.all([1, 2, 3].map(() => gateway.call('POST', '/admin/tenants', { token: admin, body: { slug: 'once' } })))
    assert.deepEqual(made.map(({ status }) => status).sort(), [201, 409, 409])
    for (const slug of ['Acme', '-x', 'a b', '', 'a/b', '..', 'x'.repeat(64)])
      assert.equal((await gateway.call('POST', '/admin/tenants', { token: admin, body: { slug } })).status, 422, slug)
  })

  it("let their users in with or without their slug, and with no other's", async () => {
    for (const { token } of [acmeUser, acmeAdmin]) {
      assert.equal(await statusOf(gateway, token), 200)
      assert.equal((await inTenant('acme', token)).status, 200)
      assert.equal((await gateway.call('GET', '/tenants/acme/auth/me', { token })).status, 200)
      const foreign = await inTenant('other', token)
      const unknown = await inTenant('nowhere', token)
      assert.equal(foreign.status, 403)
      const shown = ({ status, body }: Answer): unknown => [status, { ...body.error, requestId: '' }]
      assert.deepEqual(shown(unknown), shown(foreign))
      assert.equal((await gateway.call('GET', '/tenants/other/auth/me', { token })).status, 403)
    }
    const narrow = await gateway.call('POST', '/auth/tokens', { token: acmeUser.token, body: { name: 'x' } })
    assert.equal((await inTenant('other', narrow.body.token as string)).status, 403)
    assert.equal((await inTenant('acme', narrow.body.token as string)).status, 200)
  })

  it('are entered by administrators of the gateway only, who then work in them', async () => {
    const listed = await inTenant('acme', admin, '/admin/users')
    assert.equal(listed.status, 200)
    const ids = (listed.body.items as { id: string }[]).map(({ id }) => id)
    assert.deepEqual(ids.sort(), [acmeAdmin.id, acmeUser.id].sort())
    assert.equal((await inTenant('nowhere', admin)).status, 403)
    const plain = await newcomer(gateway, admin)
    assert.equal((await inTenant('acme', plain.token)).status, 403)
    const listToken = await gateway.call('POST', '/auth/tokens', { token: admin, body: { name: 'x', permissions: ['ManageAgents'] } })
    assert.equal((await inTenant('acme', listToken.body.token as string)).status, 403)
  })

  it("show their administrators their own users, and answer 404 for another tenant's and the gateway's", async () => {
    const mine = (await gateway.call('GET', '/admin/users', { token: acmeAdmin.token })).body.items as { id: string; tenant: string }[]
    assert.deepEqual([...new Set(mine.map(({ tenant }) => tenant))], ['acme'])
    const adminId = (await gateway.call('GET', '/auth/me', { token: admin })).body.id as string
    for (const id of [otherUser.id, otherAdmin.id, adminId]) {
      const answers = [
        gateway.call('GET', `/admin/users/${id}`, { token: acmeAdmin.token }),
        gateway.call('PATCH', `/admin/users/${id}`, { token: acmeAdmin.token, body: { password: 'taken over by acme' } }),
        gateway.call('PATCH', `/tenants/acme/admin/users/${id}`, { token: acmeAdmin.token, body: { roles: ['User'] } }),
        gateway.call('DELETE', `/admin/users/${id}`, { token: acmeAdmin.token }),
        gateway.call('POST', `/admin/users/${id}/logout`, { token: acmeAdmin.token }),
      ]
      for (const { status } of await Promise.all(answers)) assert.equal(status, 404)
    }
    for (const { token } of [otherUser, otherAdmin, { token: admin }]) assert.equal(await statusOf(gateway, token), 200)
  })

  it('keep what their administrators make inside', async () => {
    const create = (body: object): Promise<Answer> =>
      gateway.call('POST', '/admin/users', { token: acmeAdmin.token, body: { password: 'long enough', ...body } })
    const made = await create({ email: 'made@acme.org', roles: ['Admin'] })
    assert.equal(made.status, 201)
    assert.equal(made.body.tenant, 'acme')
    for (const tenant of [null, 'other', 'nowhere'])
      assert.equal((await create({ email: 'out@acme.org', roles: ['Admin'], tenant })).status, 403, String(tenant))
    const moved = await gateway.call('PATCH', `/admin/users/${acmeAdmin.id}`, { token: acmeAdmin.token, body: { tenant: null } })
    assert.equal(moved.body.tenant, 'acme')
    const all = (await gateway.call('GET', '/admin/tenants', { token: admin })).body.items as { id: string; slug: string }[]
    for (const { id, slug } of all)
      assert.equal(
        (await gateway.call('GET', `/admin/tenants/${id}`, { token: acmeAdmin.token })).status,
        slug === 'acme' ? 200 : 404,
        slug,
      )
    const listed = await gateway.call('GET', '/admin/tenants', { token: acmeAdmin.token })
    assert.deepEqual(
      (listed.body.items as { slug: string }[]).map(({ slug }) => slug),
      ['acme'],
    )
  })

  it('give their administrators no hold on the gateway', async () => {
    const calls: [string, string, unknown?][] = [
      ['POST', '/admin/tenants', { slug: 'mine' }],
      ['PUT', '/plugins/settings', { enabled: false }],
      ['POST', '/plugins/scan'],
      ['POST', '/plugins/http-channel/stop'],
      ['POST', '/plugins/http-channel/restart'],
      ['GET', '/plugins/http-channel'],
      ['POST', '/admin/vault/rotate'],
      ['POST', '/admin/signing-key/rotate'],
    ]
    for (const [method, path, body] of calls) {
      const options = { token: acmeAdmin.token, ...(body === undefined ? {} : { body }) }
      const answer = await gateway.call(method, path, options)
      assert.equal(answer.status, 403, `${method} ${path}`)
      assert.equal(answer.body.error.code, 'not_authorized')
    }
  })

  it('are no hindrance for the administrator of the gateway, whose client names one with every request', async () => {
    const headers = { 'X-Service-Tenant': 'acme' }
    const ask = (method: string, path: string, body?: unknown): Promise<Answer> =>
      gateway.call(method, path, { token: admin, headers, ...(body === undefined ? {} : { body }) })
    assert.equal((await ask('PUT', '/plugins/settings', { allowlist: [] })).status, 200)
    assert.equal((await ask('POST', '/admin/tenants', { slug: 'from-inside' })).status, 201)
    assert.equal((await ask('POST', '/admin/vault/rotate')).status, 200)
    assert.equal((await ask('POST', '/admin/signing-key/rotate')).status, 204)
    assert.equal(await statusOf(gateway, admin), 200)
    const made = await ask('POST', '/admin/users', { email: 'inside@acme.org', password: 'long enough' })
    assert.equal(made.body.tenant, 'acme')
  })

  it("hide one user's records from every other, in and out of the tenant", async () => {
    const made = await gateway.call('POST', '/agents', { token: acmeUser.token, body: { name: 'mine' } })
    assert.equal(made.status, 201)
    const path = `/agents/${made.body.id as string}`
    for (const { token } of [otherUser, otherAdmin, acmeAdmin, { token: admin }, await newcomer(gateway, admin, { tenant: 'acme' })]) {
      assert.equal((await gateway.call('GET', path, { token })).status, 404)
      assert.equal((await gateway.call('PATCH', path, { token, body: { name: 'theirs' } })).status, 404)
      assert.equal((await gateway.call('DELETE', path, { token })).status, 404)
    }
    assert.equal((await inTenant('acme', admin, path)).status, 404)
    assert.equal((await gateway.call('GET', path, { token: acmeUser.token })).body.name, 'mine')
  })

  it('cannot be had by a user who lost everything but the token', async () => {
    const user = await newcomer(gateway, admin, { tenant: 'acme' })
    await gateway.call('DELETE', `/admin/users/${user.id}`, { token: acmeAdmin.token })
    assert.equal((await inTenant('acme', user.token)).status, 401)
    // Whoever comes back with the same address sees nothing of the one before.
    const again = await addUser(gateway, acmeAdmin.token, { email: user.email })
    assert.notEqual(again.id, user.id)
  })
})
