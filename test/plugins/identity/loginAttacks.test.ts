import assert from 'node:assert/strict'
import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { ADMIN, login, startGateway, type Answer, type TestGateway } from '../../support/gateway.js'
import { identityPlugins } from './identityPlugins.js'
import { failureLimits } from '../../../plugins/identity/loginThrottle.js'
import { addUser, type Person } from './people.js'

describe('failed logins', () => {
  let gateway: TestGateway
  let admin = ''
  beforeEach(async () => {
    // Behind a trusted proxy, so that requests can come from many addresses.
    gateway = await startGateway({ plugins: identityPlugins, settings: { 'Service:Http:TrustProxy': 'true' } })
    admin = await login(gateway)
  })
  afterEach(() => gateway.stop())

  const attempt = (email: string, password: string, address = '198.51.100.1'): Promise<Answer> =>
    gateway.call('POST', '/auth/login', { body: { email, password }, headers: { 'X-Forwarded-For': address } })
  const statuses = async (times: number, next: (index: number) => Promise<Answer>): Promise<number[]> => {
    const seen: number[] = []
    for (let index = 0; index < times; index += 1) seen.push((await next(index)).status)
    return seen
  }
  const { burst, network, strangers } = failureLimits

  it('slow down one account from one network, also with the right password, with when to come back', async () => {
    const user = await addUser(gateway, admin)
    const other = await addUser(gateway, admin)
    assert.deepEqual(new Set(await statuses(burst.points, () => attempt(user.email, 'wrong'))), new Set([401]))
    const refused = await attempt(user.email.toUpperCase(), user.password)
    assert.equal(refused.status, 429)
    const seconds = Number(refused.headers.get('retry-after'))
    assert.ok(seconds >= 1 && seconds <= burst.duration, String(seconds))
    assert.equal((await attempt(other.email, other.password)).status, 200)
    assert.equal((await attempt(user.email, user.password, '198.51.100.2')).status, 200)
  })

  it('are counted for accounts that do not exist as for those that do', async () => {
    assert.deepEqual(await statuses(burst.points + 1, () => attempt('nobody@example.org', 'wrong')), [401, 401, 401, 401, 401, 429])
  })

  it('cannot be outrun by many at once', async () => {
    const user = await addUser(gateway, admin)
    const answers = await Promise.all(Array.from({ length: 40 }, () => attempt(user.email, 'wrong')))
    const checked = answers.filter(({ status }) => status === 401).length
    assert.ok(checked >= burst.points && checked <= burst.points + 1, String(checked))
    assert.ok(answers.every(({ status }) => status === 401 || status === 429))
  })

  it('are forgotten by a success from the same network', async () => {
    const user = await addUser(gateway, admin)
    for (let round = 0; round < 3; round += 1) {
      await statuses(burst.points - 1, () => attempt(user.email, 'wrong'))
      assert.equal((await attempt(user.email, user.password)).status, 200)
    }
  })

  it('of strangers slow strangers down, and not the owner where he has been before', async () => {
    const user = await addUser(gateway, admin)
    assert.equal((await attempt(user.email, user.password, '203.0.113.7')).status, 200)
    // Each from an address of its own, so that no other limit applies.
    const seen = await statuses(strangers.points + 1, index => attempt(user.email, 'wrong', `198.51.100.${String(index)}`))
    assert.equal(seen.at(-1), 429)
    assert.equal((await attempt(user.email, user.password, '192.0.2.200')).status, 429)
    assert.equal((await attempt(user.email, user.password, '203.0.113.7')).status, 200)
  })

  it('over many accounts slow down their network, however its IPv6 addresses are written', async () => {
    const seen = await statuses(network.points + 1, index =>
      attempt(`guess${String(index)}@example.org`, 'wrong', index % 2 ? `2001:db8::${String(index)}` : `2001:db8::${String(index)}:0:0:1`),
    )
    assert.equal(seen.at(-1), 429)
    assert.equal((await attempt(ADMIN.email, ADMIN.password, '2001:db8:0:1::1')).status, 200)
  })

  it('leave what was typed as an address out of the audit when it is none, and the password always', async () => {
    await attempt('my secret password', 'my other secret')
    const texts = [gateway.logged()]
    for (const entry of await readdir(gateway.dataDir, { withFileTypes: true, recursive: true }))
      if (entry.isFile()) texts.push(await readFile(join(entry.parentPath, entry.name), 'latin1'))
    assert.ok(texts.some(text => text.includes('not an e-mail address')))
    for (const text of texts) assert.ok(!text.includes('my secret password') && !text.includes('my other secret'))
  })
})

describe('many logins at once', () => {
  let gateway: TestGateway
  let user: Person
  before(async () => {
    gateway = await startGateway({ plugins: identityPlugins })
    user = await addUser(gateway, await login(gateway))
  })
  after(() => gateway.stop())

  it('wait in a bounded line; those beyond it are told to come back', async () => {
    const answers = await Promise.all(Array.from({ length: 200 }, () => gateway.call('POST', '/auth/login', { body: user })))
    const refused = answers.filter(({ status }) => status === 429)
    assert.deepEqual([...new Set(answers.map(({ status }) => status))].sort(), [200, 429])
    assert.ok(refused.every(({ headers }) => Number(headers.get('retry-after')) >= 1))
    await login(gateway, user)
  })

  it('leave the gateway free to answer others: passwords are checked off the main thread', async () => {
    let loggedIn = 0
    const logins = Array.from({ length: 20 }, () => login(gateway, user).then(() => (loggedIn += 1)))
    for (let count = 0; count < 5; count += 1) assert.equal((await gateway.call('GET', '/auth/me')).status, 401)
    assert.ok(loggedIn < logins.length, 'the other requests had to wait for every login')
    await Promise.all(logins)
  })

  it('take as long for an unknown address and a disabled user as for a wrong password', async () => {
    const disabled = await addUser(gateway, await login(gateway))
    const admin = await login(gateway)
    await gateway.call('PATCH', `/admin/users/${disabled.id}`, { token: admin, body: { disabled: true } })
    const time = async (email: string, password: string): Promise<number> => {
      const start = performance.now()
      assert.equal((await gateway.call('POST', '/auth/login', { body: { email, password } })).status, 401)
      return performance.now() - start
    }
    const known: number[] = []
    const unknown: number[] = []
    const off: number[] = []
    for (let round = 0; round < 5; round += 1) {
      known.push(await time(user.email, 'wrong'))
      unknown.push(await time(`nobody${String(round)}@example.org`, 'wrong'))
      off.push(await time(disabled.email, disabled.password))
    }
    // The least of several: whatever else the machine does only makes one take longer.
    const least = (times: number[]): number => Math.min(...times)
    // Without a hash to check, the answer would come in a tenth of the time.
    for (const other of [unknown, off]) assert.ok(least(other) > least(known) / 3, `${String(known)} against ${String(other)}`)
  })
})
