import assert from 'node:assert/strict'
import { MAX_SESSIONS } from '../../../plugins/identity/sessions.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { DAY_MS, HOUR_MS, MINUTE_MS, startClock } from './clock.js'
import { waitFor } from '../../support/waitFor.js'
import { identityPlugins } from './identityPlugins.js'
import { addUser, newcomer, statusOf } from './people.js'

describe('sessions', () => {
  let gateway: TestGateway
  let admin = ''
  before(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
    admin = await login(gateway)
  })
  after(() => gateway.stop())

  const refresh = (token: string) => gateway.call('POST', '/auth/refresh', { token })

  it('get a new token by a refresh, and the old one stops working', async () => {
    const { token } = await newcomer(gateway, admin)
    const answer = await refresh(token)
    assert.equal(answer.status, 200)
    assert.deepEqual(Object.keys(answer.body).sort(), ['expiresAt', 'token', 'user'])
    assert.equal(await statusOf(gateway, token), 401)
    assert.equal(await statusOf(gateway, answer.body.token as string), 200)
    assert.equal((await refresh(token)).status, 401)
    const listed = await gateway.call('GET', '/auth/sessions', { token: answer.body.token as string })
    assert.equal(listed.body.items.length, 1)
    assert.equal(listed.body.items[0].current, true)
  })

  it('give one new token when several refresh at once, and that one works', async () => {
    const { token } = await newcomer(gateway, admin)
    const answers = await Promise.all(Array.from({ length: 10 }, () => refresh(token)))
    const won = answers.filter(({ status }) => status === 200)
    assert.equal(won.length, 1)
    assert.deepEqual([...new Set(answers.map(({ status }) => status))].sort(), [200, 401])
    assert.equal(await statusOf(gateway, won[0]?.body.token as string), 200)
  })

  it('end by a logout, whatever is refreshed at the same time', async () => {
    for (let round = 0; round < 5; round += 1) {
      const { token } = await newcomer(gateway, admin)
      const [refreshed] = await Promise.all([refresh(token), gateway.call('POST', '/auth/logout', { token })])
      const ended = await gateway.call('POST', '/auth/logout', { token })
      assert.equal(ended.status, 401)
      assert.equal(await statusOf(gateway, token), 401)
      if (refreshed.status === 200) await gateway.call('POST', '/auth/logout', { token: refreshed.body.token as string })
      if (refreshed.status === 200) assert.equal(await statusOf(gateway, refreshed.body.token as string), 401)
    }
  })

  it('are ended one by one by their user, and by nobody else', async () => {
    const user = await newcomer(gateway, admin)
    const other = await newcomer(gateway, admin)
    const second = await login(gateway, user)
    const { items } = (await gateway.call('GET', '/auth/sessions', { token: second })).body as { items: { id: string; current: boolean }[] }
    assert.equal(items.length, 2)
    const first = items.find(({ current }) => !current)?.id ?? ''
    for (const token of [other.token, admin]) assert.equal((await gateway.call('DELETE', `/auth/sessions/${first}`, { token })).status, 404)
    assert.equal(await statusOf(gateway, user.token), 200)
    assert.equal((await gateway.call('DELETE', `/auth/sessions/${first}`, { token: second })).status, 204)
    assert.equal(await statusOf(gateway, user.token), 401)
    assert.equal((await gateway.call('DELETE', `/auth/sessions/${first}`, { token: second })).status, 404)
  })

  it('all end when an administrator logs the user out; API tokens stay', async () => {
    const user = await newcomer(gateway, admin)
    const second = await login(gateway, user)
    const script = (await gateway.call('POST', '/auth/tokens', { token: second, body: { name: 'script' } })).body.token as string
    const ended = await gateway.call('POST', `/admin/users/${user.id}/logout`, { token: admin })
    assert.deepEqual(ended.body, { sessionsEnded: 2 })
    for (const token of [user.token, second]) assert.equal(await statusOf(gateway, token), 401)
    assert.equal(await statusOf(gateway, script), 200)
  })

  it('all end when the password changes, also one that is just being opened', async () => {
    const user = await newcomer(gateway, admin)
    const password = 'another password'
    const [changed, raced] = await Promise.all([
      gateway.call('PATCH', `/admin/users/${user.id}`, { token: admin, body: { password } }),
      gateway.call('POST', '/auth/login', { body: user }),
    ])
    assert.equal(changed.status, 200)
    assert.equal(await statusOf(gateway, user.token), 401)
    if (raced.status === 200) assert.equal(await statusOf(gateway, raced.body.token as string), 401)
    assert.equal((await gateway.call('POST', '/auth/login', { body: user })).status, 401)
    await login(gateway, { email: user.email, password })
  })

  it('are fifty at most for a user: one more ends the oldest', async () => {
    const user = await newcomer(gateway, admin)
    const tokens: string[] = []
    while (tokens.length < MAX_SESSIONS) tokens.push(await login(gateway, user))
    assert.equal(await statusOf(gateway, user.token), 401)
    for (const token of [tokens[0], tokens.at(-1)]) assert.equal(await statusOf(gateway, token ?? ''), 200)
    const listed = await gateway.call('GET', '/auth/sessions?limit=200', { token: tokens[0] ?? '' })
    assert.equal(listed.body.items.length, MAX_SESSIONS)
  })

  it('take a password in either Unicode form of the same letters', async () => {
    const user = await addUser(gateway, admin, { password: 'caf\u00e9 au lait' })
    await login(gateway, { email: user.email, password: 'cafe\u0301 au lait' })
  })
})

describe('the times of sessions', () => {
  let gateway: TestGateway
  let clock: ReturnType<typeof startClock>
  let token = ''
  beforeEach(async () => {
    clock = startClock()
    const settings = { 'Service:Auth:SessionLifetime': '2d', 'Service:Auth:IdleTimeout': '2h' }
    gateway = await startGateway({ plugins: identityPlugins, settings })
    token = await login(gateway)
  })
  afterEach(async () => {
    await gateway.stop()
    clock.restore()
  })

  /** Uses the session and waits until that is noted. */
  const use = async (one: string): Promise<void> => {
    assert.equal(await statusOf(gateway, one), 200)
    await waitFor('the last use', async () => {
      const { items } = (await gateway.call('GET', '/auth/sessions', { token: one })).body as { items: { lastUsedAt: string }[] }
      return Date.now() - Date.parse(items[0]?.lastUsedAt ?? '') <= MINUTE_MS
    })
  }
  const useFor = async (ms: number, one: string): Promise<void> => {
    for (let passed = 0; passed < ms; passed += HOUR_MS) {
      await use(one)
      clock.pass(HOUR_MS)
    }
  }

  it('end after the idle timeout without use, for the token, the refresh and the list', async () => {
    clock.pass(2 * HOUR_MS - MINUTE_MS)
    await use(token)
    clock.pass(2 * HOUR_MS - MINUTE_MS)
    await use(token)
    clock.pass(2 * HOUR_MS + MINUTE_MS)
    assert.equal(await statusOf(gateway, token), 401)
    assert.equal((await gateway.call('POST', '/auth/refresh', { token })).status, 401)
    const listed = await gateway.call('GET', '/auth/sessions', { token: await login(gateway) })
    assert.equal(listed.body.items.length, 1)
  })

  it('end with their lifetime although they are used; a refresh begins a new one', async () => {
    await useFor(DAY_MS, token)
    const { body } = await gateway.call('POST', '/auth/refresh', { token })
    assert.equal(Math.round((Date.parse(body.expiresAt) - Date.now()) / DAY_MS), 2)
    await useFor(2 * DAY_MS, body.token)
    clock.pass(MINUTE_MS)
    assert.equal(await statusOf(gateway, body.token), 401)
  })

  it('of API tokens are those of the token alone', async () => {
    const made = await gateway.call('POST', '/auth/tokens', { token, body: { name: 'script', expiresInDays: 3 } })
    clock.pass(3 * DAY_MS - MINUTE_MS)
    assert.equal(await statusOf(gateway, made.body.token), 200)
    clock.pass(2 * MINUTE_MS)
    assert.equal(await statusOf(gateway, made.body.token), 401)
    const listed = await gateway.call('GET', '/auth/tokens', { token: await login(gateway) })
    assert.deepEqual(listed.body.items, [])
  })
})
