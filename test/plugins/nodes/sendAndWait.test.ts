import assert from 'node:assert/strict'
import { setMaxListeners } from 'node:events'
import { nodes } from '../../../plugins/nodes/contract.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { answering, connectNode, pairNode, wait, type TestNode } from './support.js'

describe('a command that is sent and waited for in one request', () => {
  let gateway: TestGateway
  let admin: string
  let node: TestNode

  before(async () => {
    gateway = await startGateway()
    admin = await login(gateway)
    node = await connectNode('socket.io', gateway, await pairNode(gateway, admin, 'robot', ['system.info']))
  })
  after(async () => {
    await node.close()
    await gateway.stop()
  })
  beforeEach(() => {
    node.commands.length = 0
    answering(node)
  })

  const send = (prefer: string | undefined, command = 'system.info') =>
    gateway.call('POST', '/nodes/robot/commands', {
      token: admin,
      body: { command, params: { a: 1 } },
      headers: prefer === undefined ? {} : { Prefer: prefer },
    })

  it('is answered with its result, the same that it is kept with', async () => {
    const { status, body, headers } = await send('wait=20')
    assert.equal(status, 200)
    assert.equal(headers.get('preference-applied'), 'wait=20')
    const { commandId, ...outcome } = body
    assert.deepEqual(outcome, { status: 'succeeded', ok: true, result: { a: 1 }, durationMs: 1 })
    assert.deepEqual(await wait(gateway, admin, commandId), body)
  })

  it('is answered with how it failed', async () => {
    node.onCommand = ({ commandId }) => {
      node.invoke('CommandResult', { commandId, ok: false, error: { code: 'platform_unsupported', message: 'not here' } })
    }
    const { status, body } = await send('wait=20')
    assert.equal(status, 200)
    assert.equal(body.status, 'failed')
    assert.deepEqual(body.error, { code: 'platform_unsupported', message: 'not here' })
  })

  it('is answered as it stands when the time is over, and goes on', async () => {
    node.onCommand = () => undefined
    const { status, body } = await send('respond-async, wait=1')
    assert.equal(status, 202)
    assert.deepEqual(body, { commandId: node.commands[0]?.commandId ?? 'none', status: 'dispatched' })
    answering(node)
    assert.equal((await wait(gateway, admin, body.commandId)).status, 'succeeded')
  })

  it('is acknowledged at once without the wish, or with one that says no time', async () => {
    for (const prefer of [undefined, 'return=minimal', 'wait=soon', 'wait=0'] as (string | undefined)[]) {
      const { status, body, headers } = await send(prefer)
      assert.equal(status, 202)
      assert.deepEqual(Object.keys(body), ['commandId', 'status'])
      assert.equal(headers.get('preference-applied'), null)
    }
  })

  it('passes the same gates', async () => {
    assert.equal((await send('wait=20', 'screen.capture')).status, 403)
    assert.equal(node.commands.length, 0)
  })

  it('is taken, and answered as it stands, where too many wait already', async () => {
    node.onCommand = () => undefined
    const { id: userId } = (await gateway.call('GET', '/auth/me', { token: admin })).body
    const [service, owner, over] = [gateway.service(nodes), { tenant: null, userId }, new AbortController()]
    setMaxListeners(0, over.signal)
    const ids = await Promise.all(Array.from({ length: 210 }, () => service.enqueue(owner, 'robot', { command: 'system.info' })))
    const waits = ids.flatMap(({ commandId }) =>
      Array.from({ length: 100 }, () => service.wait(owner, commandId, 60_000, over.signal).catch(() => undefined)),
    )
    const { status, body } = await send('wait=20')
    assert.equal(status, 202)
    assert.deepEqual([body.status, Object.keys(body)], ['dispatched', ['commandId', 'status']])
    over.abort()
    await Promise.all(waits)
    answering(node)
    assert.equal((await wait(gateway, admin, body.commandId)).status, 'succeeded')
  })

  it('is described', async () => {
    const { paths } = JSON.parse(await (await fetch(`${gateway.url}/openapi/v1/openapi.json`)).text())
    const { parameters, responses } = paths['/nodes/{id}/commands'].post
    assert.ok(parameters.some((parameter: { name: string; in: string }) => parameter.name === 'Prefer' && parameter.in === 'header'))
    assert.deepEqual(responses['200'].content, responses['202'].content)
    assert.notEqual(responses['200'].description, responses['202'].description)
  })
})
