import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { pairNode, SECRET } from './support.js'

const FORMAT = /^robot\.[A-Za-z0-9_-]{43}$/

describe('the pairing of a node', () => {
  let gateway: TestGateway
  let admin: string
  let dataDir: string

  const start = async (settings: Record<string, string> = {}): Promise<void> => {
    gateway = await startGateway({ dataDir, settings })
    admin = await login(gateway)
  }
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-test-'))
    await start()
  })
  afterEach(() => gateway.stop())

  const request = (body: Record<string, unknown>) => gateway.call('POST', '/nodes/pairing/request', { body })
  const poll = (nodeId: string, pairingSecret: string) => gateway.call('POST', '/nodes/me/pair', { body: { nodeId, pairingSecret } })
  const status = async (nodeId: string) => (await gateway.call('GET', `/nodes/pairing/${nodeId}/status`)).body
  const decide = (nodeId: string, verdict: string, body?: unknown) =>
    gateway.call('POST', `/nodes/${nodeId}/${verdict}`, { token: admin, ...(body === undefined ? {} : { body }) })
  const asSelf = (token: string) => gateway.call('GET', '/nodes/me', { token })

  it('goes from request over approval to a token that is handed out once and works', async () => {
    assert.deepEqual(await status('robot'), { status: 'unknown' })
    const before = Date.now()
    const requested = await request({ nodeId: 'robot', pairingSecret: SECRET, name: 'Robot', platform: 'linux', capabilities: ['screen'] })
    assert.equal(requested.status, 202)
    assert.deepEqual(Object.keys(requested.body).sort(), ['expiresAt', 'pairingCode', 'status'])
    const requestedAt = Date.parse(requested.body.expiresAt) - 15 * 60_000
    assert.ok(before <= requestedAt && requestedAt <= Date.now())
    assert.deepEqual(await status('robot'), { status: 'pending' })
    const { pairingCode } = requested.body
    assert.deepEqual((await poll('robot', SECRET)).body, { status: 'pending', pairingCode })
    const pending = (await gateway.call('GET', '/nodes/pending', { token: admin })).body.items
    assert.deepEqual([pending.length, pending[0].id, pending[0].pairingCode, pending[0].platform], [1, 'robot', pairingCode, 'linux'])

    const approved = await decide('robot', 'approve', { scopes: ['screen.capture'] })
    assert.deepEqual([approved.status, approved.body.scopes, approved.body.name], [200, ['screen.capture'], 'Robot'])
    assert.deepEqual(await status('robot'), { status: 'approved' })
    const handed = await poll('robot', SECRET)
    assert.deepEqual([handed.status, handed.body.status, handed.body.gatewayUrl], [200, 'approved', gateway.url])
    assert.match(handed.body.token, FORMAT)
    const again = await poll('robot', SECRET)
    assert.deepEqual([again.status, again.body.error.code, again.body.error.message], [409, 'conflict', 'pairing already complete'])
    const self = await asSelf(handed.body.token)
    assert.deepEqual([self.status, self.body.nodeId, self.body.scopes], [200, 'robot', ['screen.capture']])
    assert.equal((await gateway.call('GET', '/nodes/pending', { token: admin })).body.items.length, 0)
  })

  it('grants nothing that the approver does not name', async () => {
    await request({ nodeId: 'robot', pairingSecret: SECRET })
    assert.deepEqual((await decide('robot', 'approve')).body.scopes, [])
    assert.equal((await decide('robot', 'approve', { scopes: ['not a scope'] })).status, 422)
  })

  it('makes a secret for a node that brings none, and shows it once', async () => {
    const first = await request({ nodeId: 'robot' })
    assert.ok(first.body.pairingSecret.length >= 22)
    assert.equal((await request({ nodeId: 'robot', pairingSecret: first.body.pairingSecret })).body.pairingSecret, undefined)
    assert.equal((await poll('robot', first.body.pairingSecret)).body.status, 'pending')
  })

  it('is one request a node: the same secret finds it again, another one is a conflict', async () => {
    const first = await request({ nodeId: 'robot', pairingSecret: SECRET })
    const same = await request({ nodeId: 'robot', pairingSecret: SECRET })
    assert.deepEqual([same.status, same.body], [202, first.body])
    assert.equal((await request({ nodeId: 'robot', pairingSecret: `${SECRET} too` })).status, 409)
    await decide('robot', 'approve')
    for (const pairingSecret of [SECRET, `${SECRET} too`]) assert.equal((await request({ nodeId: 'robot', pairingSecret })).status, 409)
    const racing = await Promise.all(
      Array.from({ length: 5 }, (_, i) => request({ nodeId: 'other', pairingSecret: `${SECRET} ${String(i)}` })),
    )
    assert.deepEqual(racing.map(answer => answer.status).sort(), [202, 409, 409, 409, 409])
  })

  it('is decided once, also by many at once', async () => {
    await request({ nodeId: 'robot', pairingSecret: SECRET })
    const verdicts = await Promise.all(['approve', 'reject', 'approve', 'reject'].map(verdict => decide('robot', verdict)))
    assert.deepEqual(verdicts.map(answer => answer.status).sort(), [200, 409, 409, 409])
    assert.equal((await decide('nobody', 'approve')).status, 404)
  })

  it('hands the token out once, also to many polls at once', async () => {
    await request({ nodeId: 'robot', pairingSecret: SECRET })
    await decide('robot', 'approve')
    const polls = await Promise.all(Array.from({ length: 6 }, () => poll('robot', SECRET)))
    assert.deepEqual(polls.map(answer => answer.status).sort(), [200, 409, 409, 409, 409, 409])
  })

  it('tells a rejected node so, and lets it ask again', async () => {
    await request({ nodeId: 'robot', pairingSecret: SECRET })
    assert.deepEqual((await decide('robot', 'reject')).body, { id: 'robot', status: 'rejected' })
    assert.deepEqual([(await poll('robot', SECRET)).status, (await poll('robot', SECRET)).body], [200, { status: 'rejected' }])
    assert.deepEqual(await status('robot'), { status: 'rejected' })
    assert.equal((await request({ nodeId: 'robot', pairingSecret: SECRET })).status, 202)
    assert.deepEqual(await status('robot'), { status: 'pending' })
  })

  it('does not tell an unknown node from a wrong secret, and slows guessing down', async () => {
    await request({ nodeId: 'robot', pairingSecret: SECRET })
    const [wrong, unknown] = await Promise.all([poll('robot', 'a wrong pairing secret'), poll('nobody', SECRET)])
    assert.deepEqual([wrong.status, unknown.status], [401, 401])
    assert.equal(wrong.body.error.message, unknown.body.error.message)
    let refused = unknown
    for (let i = 0; i < 12 && refused.status !== 429; i++) refused = await poll('nobody', SECRET)
    assert.equal(refused.status, 429)
    assert.ok(Number(refused.headers.get('Retry-After')) > 0)
    for (let i = 0; i < 30; i++) assert.equal((await poll('robot', SECRET)).status, 200)
  })

  it('refuses names that a path means otherwise, and short secrets', async () => {
    for (const nodeId of ['me', 'pending', 'pairing', 'commands', 'update-manifest', '', '-x', 'a.b', 'a'.repeat(65), 7])
      assert.equal((await request({ nodeId, pairingSecret: SECRET })).status, 422, String(nodeId))
    assert.equal((await request({ nodeId: 'robot', pairingSecret: 'too short' })).status, 422)
    assert.deepEqual(await status('not.a.node'), { status: 'unknown' })
  })

  it('is managed with ManageNodes only', async () => {
    const other = { email: 'user@example.com', password: 'another long password' }
    await gateway.call('POST', '/admin/users', { token: admin, body: { ...other, name: 'User', roles: ['User'] } })
    const user = await login(gateway, other)
    await pairNode(gateway, admin, 'robot')
    for (const [method, path, body] of [
      ['GET', '/nodes/pending', undefined],
      ['POST', '/nodes/robot/approve', {}],
      ['POST', '/nodes/robot/reject', {}],
      ['POST', '/nodes/robot/revoke', {}],
      ['PUT', '/nodes/robot/permissions', { scopes: [] }],
      ['POST', '/nodes/robot/rotate-token', {}],
    ] as const) {
      const refused = await gateway.call(method, path, { token: user, body })
      assert.deepEqual([refused.status, refused.body.error.details.permission], [403, 'ManageNodes'], path)
      assert.equal((await gateway.call(method, path, { body })).status, 401, path)
    }
    for (const path of ['/nodes/robot', '/nodes/robot/commands', '/nodes/robot/audit', '/nodes/robot/crashes'])
      assert.equal((await gateway.call('GET', path, { token: user })).status, 404, path)
    assert.deepEqual((await gateway.call('GET', '/nodes', { token: user })).body.items, [])
  })

  it('works on over a restart, before and after the approval', async () => {
    const { body } = await request({ nodeId: 'robot', pairingSecret: SECRET })
    await gateway.stop({ keep: true })
    await start()
    assert.equal((await poll('robot', SECRET)).body.pairingCode, body.pairingCode)
    await decide('robot', 'approve')
    await gateway.stop({ keep: true })
    await start()
    const { token } = (await poll('robot', SECRET)).body
    await gateway.stop({ keep: true })
    await start()
    assert.equal((await asSelf(token)).status, 200)
    assert.equal((await poll('robot', SECRET)).status, 409)
  })

  it('starts over after a revocation: the old token and the old secret are dead', async () => {
    const token = await pairNode(gateway, admin, 'robot', ['screen.capture'])
    const revoked = await decide('robot', 'revoke')
    assert.deepEqual([revoked.status, revoked.body.state], [200, 'revoked'])
    assert.equal((await asSelf(token)).status, 401)
    assert.equal((await poll('robot', SECRET)).status, 401)
    assert.deepEqual(await status('robot'), { status: 'unknown' })
    const next = await pairNode(gateway, admin, 'robot')
    assert.notEqual(next, token)
    assert.deepEqual((await asSelf(next)).body.scopes, [])
    assert.equal((await asSelf(token)).status, 401)
  })

  it('caps the requests that wait, in all and from one address', async () => {
    await gateway.stop({ keep: true })
    await start({ 'Service:Nodes:MaxPendingPerAddress': '2' })
    for (const nodeId of ['a', 'b']) assert.equal((await request({ nodeId, pairingSecret: SECRET })).status, 202)
    const full = await request({ nodeId: 'c', pairingSecret: SECRET })
    assert.deepEqual([full.status, full.headers.get('Retry-After')], [429, '60'])
    assert.equal((await request({ nodeId: 'a', pairingSecret: SECRET })).status, 202)
    await decide('a', 'reject')
    assert.equal((await request({ nodeId: 'c', pairingSecret: SECRET })).status, 202)
  })

  it('keeps neither secret nor token, on disk or in the log', async () => {
    const token = await pairNode(gateway, admin, 'robot')
    const { token: rotated } = (await decide('robot', 'rotate-token')).body
    const secrets = [SECRET, token.split('.')[1]!, (rotated as string).split('.')[1]!]
    for (const path of ['/nodes', '/nodes/robot', '/nodes/robot/audit'])
      for (const secret of secrets) assert.ok(!(await gateway.call('GET', path, { token: admin })).text.includes(secret), path)
    await gateway.stop({ keep: true })
    for (const secret of secrets) assert.ok(!gateway.logged().includes(secret))
    for (const entry of await readdir(dataDir, { recursive: true, withFileTypes: true })) {
      if (!entry.isFile()) continue
      const bytes = await readFile(join(entry.parentPath, entry.name))
      for (const secret of secrets) assert.ok(!bytes.includes(secret), entry.name)
    }
    await start()
  })
})

describe("a node's token", () => {
  let gateway: TestGateway
  let admin: string
  before(async () => {
    gateway = await startGateway()
    admin = await login(gateway)
  })
  after(() => gateway.stop())

  const asSelf = async (token: string) => (await gateway.call('GET', '/nodes/me', { token })).status
  const rotate = async (): Promise<string> => (await gateway.call('POST', '/nodes/robot/rotate-token', { token: admin })).body.token

  it('stays good after a rotation until the new one is used', async () => {
    const first = await pairNode(gateway, admin, 'robot')
    const second = await rotate()
    assert.deepEqual([await asSelf(first), await asSelf(first)], [200, 200])
    const third = await rotate()
    assert.equal(await asSelf(first), 200, 'the one in use survives two rotations')
    assert.equal(await asSelf(second), 401)
    assert.equal(await asSelf(third), 200)
    assert.equal(await asSelf(first), 401)
  })

  it('is refused when it is malformed, wrong, or a user is asked for', async () => {
    for (const token of ['robot', 'robot.', 'robot.wrong', '.x', 'nobody.wrong', 'me.x', 'robot.x.y'])
      assert.equal(await asSelf(token), 401, token)
    const good = await rotate()
    assert.equal((await gateway.call('GET', '/nodes', { token: good })).status, 401)
    assert.equal((await gateway.call('GET', '/nodes/me', { token: admin })).status, 401)
  })

  it('is not even looked at where node wake is off', async () => {
    for (const [method, path] of [
      ['GET', '/nodes/me/voice/runtime'],
      ['POST', '/nodes/me/voice/state'],
      ['POST', '/nodes/me/voice/wake'],
    ] as const)
      for (const options of [{}, { token: 'robot.wrong' }, { token: await rotate() }]) {
        const answer = await gateway.call(method, path, options)
        assert.deepEqual([answer.status, answer.body.error.code], [404, 'not_found'], path)
      }
  })
})
