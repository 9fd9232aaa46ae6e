import assert from 'node:assert/strict'
import { nodes } from '../../../plugins/nodes/contract.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, SECRET, send, wait, type TestNode } from './support.js'

describe('a direct call to a node', () => {
  let gateway: TestGateway
  let admin: string
  let owner: { tenant: null; userId: string }
  let node: TestNode

  before(async () => {
    gateway = await startGateway()
    admin = await login(gateway)
    owner = { tenant: null, userId: (await gateway.call('GET', '/auth/me', { token: admin })).body.id }
    const token = await pairNode(gateway, admin, 'robot', ['system.info', 'input.control'])
    node = await connectNode('signalr', gateway, token)
  })
  after(() => gateway.stop())

  const call = (command: string, params = {}, timeoutMs = 10_000) =>
    gateway.service(nodes).call(owner, 'robot', { command, params, timeoutMs })

  it('is answered like any command, and is kept nowhere', async () => {
    answering(node)
    const results = await Promise.all(Array.from({ length: 100 }, (_, i) => call('system.info', { i })))
    assert.deepEqual(
      results.map(({ result }) => result?.i),
      Array.from({ length: 100 }, (_, i) => i),
    )
    assert.deepEqual((await gateway.call('GET', '/nodes/robot/commands', { token: admin })).body.items, [])
  })

  it('passes the same gates', async () => {
    await assert.rejects(call('system.reboot'), { code: 'not_authorized' })
    await assert.rejects(gateway.service(nodes).call(owner, 'robot', { command: 'input.move', agentId: 'agt_1' }), {
      code: 'not_authorized',
    })
    await assert.rejects(gateway.service(nodes).call({ tenant: null, userId: 'other' }, 'robot', { command: 'system.info' }), {
      code: 'not_found',
    })
    await assert.rejects(
      gateway.service(nodes).run({ tenant: 'x', userId: owner.userId }, 'robot', { command: 'system.info' }, new AbortController().signal),
      {
        code: 'not_found',
      },
    )
    await assert.rejects(gateway.service(nodes).call(owner, 'nobody', { command: 'system.info' }), { code: 'service_unavailable' })
  })

  it('ends with the error of the node, with its time, or with the connection', async () => {
    node.onCommand = ({ commandId }) => {
      node.invoke('CommandResult', { commandId, ok: false, error: { code: 'busy', message: 'no', retryAfterMs: 5 }, durationMs: 1 })
    }
    const { status, error } = await call('system.info')
    assert.deepEqual([status, error?.code], ['failed', 'busy'])
    node.onCommand = () => undefined
    assert.equal((await call('system.info', {}, 50)).status, 'timed_out')
    const before = node.commands.length
    const lost = call('system.info')
    await waitFor('the command', () => node.commands.length > before)
    await node.close()
    assert.equal((await lost).error?.code, 'cancelled')
  })
})

describe('nodes of tenants', () => {
  it('belong to their tenant alone, and work in it', async () => {
    const gateway = await startGateway()
    const admin = await login(gateway)
    await gateway.call('POST', '/admin/tenants', { token: admin, body: { slug: 'acme' } })
    await gateway.call('POST', '/admin/tenants', { token: admin, body: { slug: 'other' } })
    const in_ = (slug: string) => ({ token: admin, headers: { 'X-Service-Tenant': slug } })
    await gateway.call('POST', '/nodes/pairing/request', { body: { nodeId: 'robot', pairingSecret: SECRET } })
    await gateway.call('POST', '/nodes/robot/approve', { ...in_('acme'), body: { scopes: ['system.info'] } })
    const { token } = (await gateway.call('POST', '/nodes/me/pair', { body: { nodeId: 'robot', pairingSecret: SECRET } })).body
    const node = answering(await connectNode('socket.io', gateway, token))
    for (const options of [{ token: admin }, in_('other')]) {
      assert.deepEqual((await gateway.call('GET', '/nodes', options)).body.items, [])
      for (const path of ['/nodes/robot', '/nodes/robot/commands', '/nodes/robot/audit', '/nodes/robot/crashes'])
        assert.equal((await gateway.call('GET', path, options)).status, 404, path)
      assert.equal((await gateway.call('POST', '/nodes/robot/revoke', options)).status, 404)
      assert.equal((await gateway.call('PUT', '/nodes/robot/permissions', { ...options, body: { scopes: [] } })).status, 404)
      assert.equal((await gateway.call('POST', '/nodes/robot/rotate-token', options)).status, 404)
      assert.equal((await gateway.call('POST', '/nodes/robot/commands', { ...options, body: { command: 'system.info' } })).status, 404)
    }
    const accepted = await gateway.call('POST', '/nodes/robot/commands', { ...in_('acme'), body: { command: 'system.info' } })
    const path = `/nodes/commands/${accepted.body.commandId as string}/wait`
    assert.equal((await gateway.call('GET', path, in_('acme'))).body.status, 'succeeded')
    assert.equal((await gateway.call('GET', path, in_('other'))).status, 404)
    const audit = (await gateway.call('GET', '/nodes/robot/audit', in_('acme'))).body.items as { action: string }[]
    assert.deepEqual(
      audit.map(({ action }) => action),
      ['nodes.approve'],
    )
    // Revoked here and paired there, nothing of here comes along.
    await gateway.call('POST', '/nodes/robot/revoke', in_('acme'))
    await waitFor('the end', () => !node.isOpen())
    const there = await pairNode(gateway, admin, 'robot', ['system.info'])
    const again = answering(await connectNode('socket.io', gateway, there))
    assert.equal((await gateway.call('GET', '/nodes/robot', in_('acme'))).status, 404)
    assert.deepEqual((await gateway.call('GET', '/nodes/robot/commands', { token: admin })).body.items, [])
    assert.equal((await wait(gateway, admin, await send(gateway, admin, 'robot', { command: 'system.info' }))).status, 'succeeded')
    await again.close()
    await gateway.stop()
  })
})

describe('the ordinary limits', () => {
  it('hold for pairing requests, by address, and never for polls of a pairing', async () => {
    const gateway = await startGateway({ settings: { 'Service:RateLimits:Write': '3', 'Service:RateLimits:Read': '3' } })
    const request = (nodeId: string) => gateway.call('POST', '/nodes/pairing/request', { body: { nodeId, pairingSecret: SECRET } })
    for (const nodeId of ['a', 'b', 'c']) assert.equal((await request(nodeId)).status, 202)
    const refused = await request('d')
    assert.deepEqual([refused.status, refused.body.error.code], [429, 'rate_limited'])
    assert.ok(Number(refused.headers.get('Retry-After')) > 0)
    for (let i = 0; i < 50; i++) {
      assert.equal((await gateway.call('POST', '/nodes/me/pair', { body: { nodeId: 'a', pairingSecret: SECRET } })).status, 200)
      assert.equal((await gateway.call('GET', '/nodes/pairing/a/status')).status, 200)
    }
    await gateway.stop()
  })
})
