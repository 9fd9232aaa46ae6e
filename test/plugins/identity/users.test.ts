import assert from 'node:assert/strict'
import { ADMIN, login, startGateway, type Answer, type TestGateway } from '../../support/gateway.js'
import { identityPlugins } from './identityPlugins.js'
import { addUser, newcomer, statusOf } from './people.js'

describe('users', () => {
  let gateway: TestGateway
  let admin = ''
  before(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
    admin = await login(gateway)
  })
  after(() => gateway.stop())

  const create = (body: Record<string, unknown>): Promise<Answer> =>
    gateway.call('POST', '/admin/users', { token: admin, body: { password: 'long enough', ...body } })

  it('are created by administrators, and never show a hash', async () => {
    const made = await create({ email: 'Ada@Example.org', name: ' Ada ' })
    assert.equal(made.status, 201)
    assert.equal(made.headers.get('location'), `/api/admin/users/${made.body.id as string}`)
    assert.equal(made.body.email, 'ada@example.org')
    assert.equal(made.body.name, 'Ada')
    assert.deepEqual(made.body.roles, ['User'])
    const listed = await gateway.call('GET', '/admin/users?limit=200', { token: admin })
    assert.ok(!/argon|hash|knownNetworks|spreading/i.test(listed.text), listed.text)
    assert.deepEqual((await gateway.call('GET', `/admin/users/${made.body.id as string}`, { token: admin })).body, made.body)
  })

  it('have one address each, whatever its case, its Unicode form and the width of its letters', async () => {
    assert.equal((await create({ email: 'zo\u00eb@example.org' })).status, 201)
    const same = ['ZOE\u0308@example.org', ' zo\u00eb@EXAMPLE.org ', '\uff5ao\u00eb@example.org', 'zo\u00eb\uff20example.org']
    for (const email of same) assert.equal((await create({ email })).status, 409, email)
    // Lower-casing one spelling of a letter can leave it in another form than its lower-case spelling has.
    assert.equal((await create({ email: '\u03ab\u0301@example.org' })).status, 201)
    assert.equal((await create({ email: '\u03b0@example.org' })).status, 409)
    await login(gateway, { email: ' ZOE\u0308@example.org', password: 'long enough' })
  })

  it('have no invisible characters in their address', async () => {
    for (const email of ['ad\u200bmin@localhost', 'admin\u202e@localhost', 'a\u0000b@localhost', 'admin@local\u00adhost', 'a\ud800@b'])
      assert.equal((await create({ email })).status, 422, JSON.stringify(email))
  })

  it('are refused with every issue named', async () => {
    const answer = await create({ email: 'nobody', password: 'short', roles: [] })
    assert.equal(answer.status, 422)
    const paths = (answer.body.error.details.issues as { path: string }[]).map(({ path }) => path)
    assert.deepEqual(paths.sort(), ['email', 'password', 'roles'])
    for (const roles of [['King'], ['constructor'], ['admin']])
      assert.equal((await create({ email: 'x@example.org', roles })).status, 422, roles.join())
    assert.equal((await create({ email: 'x@example.org', password: 'x'.repeat(1025) })).status, 422)
    assert.equal((await create({ email: 'x@example.org', tenant: 'nowhere' })).status, 422)
    assert.equal((await create({ email: `${'x'.repeat(250)}@example.org` })).status, 201)
  })

  it('get one account when several are created with one address at once', async () => {
    const answers = await Promise.all(
      ['one@example.org', 'ONE@example.org', ' one@example.org', 'one@Example.ORG'].map(email => create({ email })),
    )
    assert.deepEqual(answers.map(({ status }) => status).sort(), [201, 409, 409, 409])
  })

  it('cannot make themselves more than they are', async () => {
    const user = await newcomer(gateway, admin, { roles: ['User', 'Operator'] })
    const attempts: [string, string, unknown?][] = [
      ['PATCH', `/admin/users/${user.id}`, { roles: ['Admin'] }],
      ['POST', '/admin/users', { email: 'mine@example.org', password: 'long enough', roles: ['Admin'] }],
      ['GET', '/admin/users'],
      ['GET', `/admin/users/${user.id}`],
      ['DELETE', `/admin/users/${user.id}`],
      ['POST', `/admin/users/${user.id}/logout`],
      ['GET', '/admin/roles'],
      ['GET', '/admin/tenants'],
      ['POST', '/admin/tenants', { slug: 'mine' }],
    ]
    for (const [method, path, body] of attempts) {
      const answer = await gateway.call(method, path, { token: user.token, ...(body === undefined ? {} : { body }) })
      assert.equal(answer.status, 403, `${method} ${path}`)
      assert.equal(answer.body.error.code, 'not_authorized')
    }
    const { body } = await gateway.call('GET', '/auth/me', { token: user.token })
    assert.deepEqual(body.roles, ['User', 'Operator'])
  })

  it('ignore fields that no request may set', async () => {
    const { id, email, password } = await addUser(gateway, admin)
    const body = { id: 'usr_other', tenant: 'other', version: 99, passwordHash: 'x', gatewayAdmin: true, permissions: ['ManageSettings'] }
    const changed = await gateway.call('PATCH', `/admin/users/${id}`, { token: admin, body: { ...body, name: 'New' } })
    assert.equal(changed.status, 200)
    assert.equal(changed.body.id, id)
    assert.equal(changed.body.tenant, null)
    assert.ok(!changed.body.permissions.includes('ManageSettings'))
    await login(gateway, { email, password })
  })

  it('who gain a role have it in the sessions that they have already', async () => {
    const user = await newcomer(gateway, admin)
    assert.equal((await gateway.call('GET', '/admin/users', { token: user.token })).status, 403)
    await gateway.call('PATCH', `/admin/users/${user.id}`, { token: admin, body: { roles: ['Admin'] } })
    assert.equal((await gateway.call('GET', '/admin/users', { token: user.token })).status, 200)
    await gateway.call('PATCH', `/admin/users/${user.id}`, { token: admin, body: { roles: ['User'] } })
    assert.equal((await gateway.call('GET', '/admin/users', { token: user.token })).status, 403)
  })

  it('who are unknown are 404', async () => {
    for (const [method, body] of [['GET'], ['PATCH', { name: 'x' }], ['DELETE']] as const)
      assert.equal((await gateway.call(method, '/admin/users/usr_nobody', { token: admin, ...(body ? { body } : {}) })).status, 404)
    assert.equal((await gateway.call('POST', '/admin/users/usr_nobody/logout', { token: admin })).status, 404)
  })
})

describe('the last administrator', () => {
  let gateway: TestGateway
  let admin = ''
  let adminId = ''
  beforeEach(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
    admin = await login(gateway)
    adminId = (await gateway.call('GET', '/auth/me', { token: admin })).body.id as string
  })
  afterEach(() => gateway.stop())

  const change = (id: string, body: unknown, token = admin): Promise<Answer> => gateway.call('PATCH', `/admin/users/${id}`, { token, body })
  const remove = (id: string, token = admin): Promise<Answer> => gateway.call('DELETE', `/admin/users/${id}`, { token })
  const statuses = (answers: Answer[]): number[] => answers.map(({ status }) => status).sort()

  it('cannot be demoted, disabled or removed', async () => {
    await newcomer(gateway, admin)
    await addUser(gateway, admin, { roles: ['Admin'] }).then(({ id }) => change(id, { disabled: true }))
    for (const refused of [await change(adminId, { roles: ['User'] }), await change(adminId, { disabled: true }), await remove(adminId)]) {
      assert.equal(refused.status, 409, refused.text)
      assert.match(refused.body.error.message, /last enabled administrator/)
    }
    assert.equal(await statusOf(gateway, admin), 200)
    assert.equal((await change(adminId, { name: 'Still here', roles: ['Admin', 'User'] })).status, 200)
  })

  it('stays when two administrators remove, demote or disable each other at once', async () => {
    const ways: ((id: string, token: string) => Promise<Answer>)[] = [
      (id, token) => change(id, { roles: ['User'] }, token),
      (id, token) => change(id, { disabled: true }, token),
      (id, token) => remove(id, token),
    ]
    for (const way of ways) {
      const other = await newcomer(gateway, admin, { roles: ['Admin'] })
      const answers = await Promise.all([way(adminId, other.token), way(other.id, admin)])
      assert.equal(answers.filter(({ status }) => status < 300).length, 1, JSON.stringify(statuses(answers)))
      const [left, leftId] =
        (await gateway.call('GET', '/admin/users', { token: admin })).status === 200 ? [admin, adminId] : [other.token, other.id]
      const { items } = (await gateway.call('GET', '/admin/users', { token: left })).body as {
        items: { id: string; roles: string[]; disabled: boolean }[]
      }
      assert.deepEqual(
        items.filter(({ roles, disabled }) => roles.includes('Admin') && !disabled).map(({ id }) => id),
        [leftId],
      )
      admin = left
      adminId = leftId
    }
  })

  it('is still known after one administrator was demoted by several requests at once', async () => {
    for (let round = 0; round < 10; round += 1) {
      const first = await addUser(gateway, admin, { roles: ['Admin'] })
      const second = await addUser(gateway, admin, { roles: ['Admin'] })
      const bodies = [{ roles: ['User'] }, { name: 'a' }, { disabled: true }, { name: 'b' }, { roles: ['Operator'] }]
      const answers = await Promise.all(bodies.map(body => change(first.id, body)))
      for (const { status } of answers) assert.ok(status === 200 || status === 409, String(status))
      const { body } = await gateway.call('GET', `/admin/users/${first.id}`, { token: admin })
      assert.ok(body.disabled || !body.roles.includes('Admin'))
      assert.equal((await remove(second.id)).status, 204)
      assert.equal((await change(adminId, { roles: ['User'] })).status, 409, `round ${String(round)}`)
    }
  })

  it('is still known after another was removed and enabled again at once', async () => {
    for (let round = 0; round < 10; round += 1) {
      const other = await addUser(gateway, admin, { roles: ['Admin'] })
      await Promise.all([remove(other.id), change(other.id, { disabled: false }), change(other.id, { disabled: false })])
      const left = await gateway.call('GET', `/admin/users/${other.id}`, { token: admin })
      if (left.status === 200) assert.equal((await remove(other.id)).status, 204)
      assert.equal((await change(adminId, { roles: ['User'] })).status, 409, `round ${String(round)}`)
    }
  })

  it('of a tenant is no administrator of the gateway', async () => {
    await gateway.call('POST', '/admin/tenants', { token: admin, body: { slug: 'acme' } })
    await addUser(gateway, admin, { roles: ['Admin'], tenant: 'acme' })
    assert.equal((await change(adminId, { roles: ['User'] })).status, 409)
  })

  it('is there after a restart, and none is made anew', async () => {
    const other = await addUser(gateway, admin, { roles: ['Admin'] })
    await change(adminId, { roles: ['User'] })
    await gateway.stop({ keep: true })
    gateway = await startGateway({
      plugins: identityPlugins,
      dataDir: gateway.dataDir,
      settings: { 'Service:Admin:Email': 'new@localhost' },
    })
    assert.equal((await gateway.call('POST', '/auth/login', { body: { ...ADMIN, email: 'new@localhost' } })).status, 401)
    const token = await login(gateway, other)
    assert.equal((await gateway.call('GET', '/admin/users', { token })).status, 200)
    assert.equal((await change(other.id, { disabled: true }, token)).status, 409)
  })
})
