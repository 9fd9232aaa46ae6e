import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { UserRow } from '../../../plugins/identity/rows.js'
import { collection } from '../../../core/store/collection.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { openCollection } from '../../support/store.js'
import { identityPlugins } from './identityPlugins.js'
import { addUser, newcomer, statusOf } from './people.js'

const ROUNDS = 8

describe('a user who is changed while credentials are made', () => {
  let gateway: TestGateway
  let admin = ''
  before(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
    admin = await login(gateway)
  })
  after(() => gateway.stop())

  const change = (id: string, body: unknown) => gateway.call('PATCH', `/admin/users/${id}`, { token: admin, body })

  it('has no session and no token with a role that was taken away', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const user = await newcomer(gateway, admin, { roles: ['Admin'] })
      const [, loggedIn, ...made] = await Promise.all([
        change(user.id, { roles: ['User'] }),
        gateway.call('POST', '/auth/login', { body: user }),
        ...Array.from({ length: 4 }, () => gateway.call('POST', '/auth/tokens', { token: user.token, body: { name: 'x' } })),
      ])
      const tokens = [user.token, ...[loggedIn, ...made].map(({ body }) => body.token as string)]
      for (const token of tokens) {
        assert.deepEqual((await gateway.call('GET', '/auth/me', { token })).body.roles, ['User'])
        assert.equal((await gateway.call('GET', '/admin/users', { token })).status, 403)
      }
    }
  })

  it('has none at all once disabled or removed', async () => {
    for (let round = 0; round < ROUNDS; round += 1) {
      const user = await newcomer(gateway, admin)
      const end = round % 2 ? change(user.id, { disabled: true }) : gateway.call('DELETE', `/admin/users/${user.id}`, { token: admin })
      const [ended, ...made] = await Promise.all([
        end,
        gateway.call('POST', '/auth/login', { body: user }),
        gateway.call('POST', '/auth/refresh', { token: user.token }),
        ...Array.from({ length: 4 }, () => gateway.call('POST', '/auth/tokens', { token: user.token, body: { name: 'x' } })),
      ])
      assert.ok(ended.status < 300)
      for (const { status, body } of made) {
        assert.ok([200, 201, 401].includes(status), String(status))
        if (status < 300) assert.equal(await statusOf(gateway, body.token as string), 401)
      }
      assert.equal(await statusOf(gateway, user.token), 401)
    }
  })

  it('keeps every change of several made at once', async () => {
    const user = await addUser(gateway, admin)
    const bodies = [
      { name: 'New' },
      { roles: ['Operator'] },
      { password: 'the new password' },
      { email: 'moved@example.org' },
      { disabled: false },
    ]
    for (const { status } of await Promise.all(bodies.map(body => change(user.id, body)))) assert.equal(status, 200)
    const { body } = await gateway.call('GET', `/admin/users/${user.id}`, { token: admin })
    assert.deepEqual([body.name, body.roles, body.email], ['New', ['Operator'], 'moved@example.org'])
    await login(gateway, { email: 'moved@example.org', password: 'the new password' })
  })

  it('has one who wins when two take the same address at once, and the other stays as he was', async () => {
    const [one, two] = [await addUser(gateway, admin), await addUser(gateway, admin)]
    const answers = await Promise.all([one, two].map(({ id }) => change(id, { email: 'wanted@example.org' })))
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409])
    const loser = answers[0]?.status === 409 ? one : two
    await login(gateway, loser)
  })
})

describe('a change of a user that a crash interrupted', () => {
  it('reaches sessions and tokens at the next start', async () => {
    const first = await startGateway({ plugins: identityPlugins })
    const admin = await login(first)
    const demoted = await newcomer(first, admin, { roles: ['Admin'] })
    const script = (await first.call('POST', '/auth/tokens', { token: demoted.token, body: { name: 'x' } })).body.token as string
    const renewed = await newcomer(first, admin)
    await first.stop({ keep: true })
    // As the store is left between the change of the user and that of its sessions.
    const store = await openSqliteStore({ file: join(first.dataDir, 'store.db') })
    const users = await openCollection(store, 'identity.users', collection.global<UserRow>())
    await users.updateOne(
      { id: demoted.id },
      { $set: { roles: ['User'], spreading: 'snapshot' }, $unset: { gatewayAdmin: '' }, $inc: { version: 1 } },
    )
    await users.updateOne({ id: renewed.id }, { $set: { spreading: 'logout' }, $inc: { version: 1 } })
    await store.close()
    const gateway = await startGateway({ plugins: identityPlugins, dataDir: first.dataDir })
    for (const token of [demoted.token, script]) assert.deepEqual((await gateway.call('GET', '/auth/me', { token })).body.roles, ['User'])
    assert.equal(await statusOf(gateway, renewed.token), 401)
    const { id } = (await gateway.call('GET', '/auth/me', { token: admin })).body as { id: string }
    assert.equal((await gateway.call('PATCH', `/admin/users/${id}`, { token: admin, body: { disabled: true } })).status, 409)
    await gateway.stop()
  })
})
