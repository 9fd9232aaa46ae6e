import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { login, startGateway, type Answer, type TestGateway } from '../../support/gateway.js'
import { identityPlugins } from './identityPlugins.js'
import { addUser, newcomer, statusOf } from './people.js'

describe('API tokens', () => {
  let gateway: TestGateway
  let admin = ''
  before(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
    admin = await login(gateway)
  })
  after(() => gateway.stop())

  const create = (token: string, body: Record<string, unknown> = {}): Promise<Answer> =>
    gateway.call('POST', '/auth/tokens', { token, body: { name: 'script', ...body } })
  const permissionsOf = async (token: string): Promise<string[]> =>
    (await gateway.call('GET', '/auth/me', { token })).body.permissions as string[]

  it('are shown once, begin with sk_, and act as their user', async () => {
    const user = await newcomer(gateway, admin)
    const created = await create(user.token, { expiresInDays: 7 })
    assert.equal(created.status, 201)
    assert.match(created.body.token, /^sk_[\w-]{48}$/)
    assert.ok(Date.parse(created.body.expiresAt) - Date.parse(created.body.createdAt) === 7 * 86_400_000)
    assert.equal((await gateway.call('GET', '/auth/me', { token: created.body.token })).body.id, user.id)
    const listed = await gateway.call('GET', '/auth/tokens', { token: user.token })
    assert.equal(listed.body.items.length, 1)
    assert.equal(listed.body.items[0].id, created.body.id)
    assert.ok(!listed.text.includes(created.body.token.slice(20)))
    assert.ok(!('hash' in listed.body.items[0]))
    const one = await gateway.call('GET', (created.headers.get('location') ?? '').replace(/^\/api/, ''), { token: user.token })
    // When it was last used is noted a moment after the use.
    assert.deepEqual({ ...one.body, lastUsedAt: null }, { ...listed.body.items[0], lastUsedAt: null })
  })

  it('stand in no file and in no log', async () => {
    const { token } = (await create(admin)).body as { token: string }
    assert.equal(await statusOf(gateway, token), 200)
    const secret = token.slice(19)
    assert.ok(!gateway.logged().includes(secret))
    for (const entry of await readdir(gateway.dataDir, { recursive: true, withFileTypes: true }))
      if (entry.isFile()) assert.ok(!(await readFile(join(entry.parentPath, entry.name))).includes(secret), entry.name)
  })

  it('are refused when they are tampered with, cut, of another kind, or deleted', async () => {
    const { token, id } = (await create(admin)).body as { token: string; id: string }
    const other = (await create(admin)).body.token as string
    const flipped = token.slice(0, -1) + (token.endsWith('A') ? 'B' : 'A')
    const mixed = token.slice(0, 19) + other.slice(19)
    for (const bad of [flipped, mixed, token.slice(0, -1), `${token}A`, token.toUpperCase(), 'sk_', 'sk_$ne'])
      assert.equal(await statusOf(gateway, bad), 401, bad)
    assert.equal((await gateway.call('DELETE', `/auth/tokens/${id}`, { token: admin })).status, 204)
    assert.equal(await statusOf(gateway, token), 401)
    assert.equal(await statusOf(gateway, other), 200)
  })

  it('may do what their list says and their user may, and no more', async () => {
    const user = await newcomer(gateway, admin, { roles: ['User', 'Operator'] })
    assert.equal((await create(user.token, { permissions: ['ManageSettings'] })).status, 403)
    assert.equal((await create(user.token, { permissions: ['ManageSettings'] })).body.error.details.permission, 'ManageSettings')
    assert.equal((await create(user.token, { permissions: ['toString'] })).status, 422)
    const narrow = (await create(user.token, { permissions: ['ManageAgents', 'OperateGateway'] })).body.token as string
    const none = (await create(user.token, { permissions: [] })).body.token as string
    assert.deepEqual(await permissionsOf(narrow), ['ManageAgents', 'OperateGateway'])
    assert.deepEqual(await permissionsOf(none), [])
  })

  it('lose what their user loses, at once, with and without a list', async () => {
    const user = await newcomer(gateway, admin, { roles: ['User', 'Operator'] })
    const narrow = (await create(user.token, { permissions: ['ManageAgents', 'OperateGateway'] })).body.token as string
    const whole = (await create(user.token)).body.token as string
    await gateway.call('PATCH', `/admin/users/${user.id}`, { token: admin, body: { roles: ['User'] } })
    assert.deepEqual(await permissionsOf(narrow), ['ManageAgents'])
    assert.ok(!(await permissionsOf(whole)).includes('OperateGateway'))
    assert.ok(!(await permissionsOf(user.token)).includes('OperateGateway'))
    await gateway.call('PATCH', `/admin/users/${user.id}`, { token: admin, body: { disabled: true } })
    for (const token of [narrow, whole, user.token]) assert.equal(await statusOf(gateway, token), 401)
  })

  it('of an administrator with a list are no administrator, and make or see no tokens and sessions', async () => {
    const narrow = (await create(admin, { permissions: ['ManageUsers', 'ManageSettings'] })).body as { id: string; token: string }
    const refused = [
      gateway.call('GET', '/admin/users', { token: narrow.token }),
      gateway.call('GET', '/auth/tokens', { token: narrow.token }),
      gateway.call('GET', '/auth/sessions', { token: narrow.token }),
      create(narrow.token),
      create(narrow.token, { permissions: ['ManageUsers'] }),
    ]
    for (const answer of await Promise.all(refused)) assert.equal(answer.status, 403, answer.text)
    assert.equal((await gateway.call('POST', '/auth/refresh', { token: narrow.token })).status, 409)
    assert.equal((await gateway.call('POST', '/auth/logout', { token: narrow.token })).status, 409)
    assert.equal((await gateway.call('DELETE', `/auth/tokens/${narrow.id}`, { token: narrow.token })).status, 204)
  })

  it('cannot make tokens that outlive them', async () => {
    const user = await newcomer(gateway, admin)
    const short = (await create(user.token, { expiresInDays: 2 })).body.token as string
    assert.equal((await create(short)).status, 403)
    assert.equal((await create(short, { expiresInDays: 3 })).status, 403)
    assert.equal((await create(short, { expiresInDays: 1 })).status, 201)
    const lasting = (await create(user.token)).body.token as string
    assert.equal((await create(lasting)).status, 201)
  })

  it('are not found by another user', async () => {
    const user = await newcomer(gateway, admin)
    const { id, token } = (await create(admin)).body as { id: string; token: string }
    for (const method of ['GET', 'DELETE'])
      assert.equal((await gateway.call(method, `/auth/tokens/${id}`, { token: user.token })).status, 404)
    assert.equal(await statusOf(gateway, token), 200)
    assert.ok(!(await gateway.call('GET', '/auth/tokens', { token: user.token })).text.includes(id))
  })

  it('end with their user', async () => {
    const user = await newcomer(gateway, admin)
    const token = (await create(user.token)).body.token as string
    assert.equal((await gateway.call('DELETE', `/admin/users/${user.id}`, { token: admin })).status, 204)
    assert.equal(await statusOf(gateway, token), 401)
    assert.equal(await statusOf(gateway, user.token), 401)
    assert.equal((await gateway.call('POST', '/auth/login', { body: user })).status, 401)
    // The address is free again, and what it gets is another user.
    const again = await addUser(gateway, admin, { email: user.email })
    assert.notEqual(again.id, user.id)
    assert.equal(await statusOf(gateway, token), 401)
  })

  it('are refused with the issue named when their wish is malformed', async () => {
    for (const body of [{ expiresInDays: 0 }, { expiresInDays: 1.5 }, { expiresInDays: 1e9 }, { name: ' ' }, { permissions: 'all' }])
      assert.equal((await create(admin, body)).status, 422, JSON.stringify(body))
  })

  it('are a hundred at most for a user', async () => {
    const user = await newcomer(gateway, admin)
    const made = await Promise.all(Array.from({ length: 110 }, () => create(user.token)))
    assert.deepEqual([...new Set(made.map(({ status }) => status))].sort(), [201, 409])
    const kept = made.filter(({ status }) => status === 201)
    assert.ok(kept.length <= 100)
    for (;;) {
      const more = await create(user.token)
      if (more.status === 409) break
      kept.push(more)
    }
    assert.equal(kept.length, 100)
  })
})
