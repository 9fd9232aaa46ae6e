import assert from 'node:assert/strict'
import { settings } from '../../../plugins/nodes/settings.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, send, wait, type Protocol } from './support.js'

describe("the specification's constants for nodes", () => {
  let gateway: TestGateway
  let admin: string
  let token: string

  before(async () => {
    gateway = await startGateway({ settings: { 'Service:RateLimits:Decision': '4' } })
    admin = await login(gateway)
    token = await pairNode(gateway, admin, 'robot', ['system.info'])
  })
  after(() => gateway.stop())

  it('stand where nothing is configured: 90 s without a heartbeat, pings every 15 s, an hour in the queue, a minute of two tokens', () => {
    const { offlineAfter, pingInterval, pollInterval, queueTtl, rotationGrace } = settings
    assert.deepEqual(
      [offlineAfter, pingInterval, pollInterval, queueTtl, rotationGrace].map(({ default: seconds }) => seconds),
      [90, 15, 2, 3600, 60],
    )
  })

  it('are told to a node: a heartbeat every 30 s, a poll every 2 s', async () => {
    const { body } = await gateway.call('GET', '/nodes/me', { token })
    assert.deepEqual([body.heartbeatIntervalMs, body.pollIntervalMs], [30_000, 2000])
    assert.deepEqual(body.protocolVersions, ['2026-04-01'])
  })

  for (const protocol of ['socket.io', 'signalr'] satisfies Protocol[])
    it(`give a command 30 s where it names no time, over ${protocol} and by polling`, async () => {
      const polled = await send(gateway, admin, 'robot', { command: 'system.info' })
      const { commands } = (await gateway.call('GET', '/nodes/me/commands', { token })).body as { commands: Record<string, unknown>[] }
      assert.deepEqual(commands, [{ commandId: polled, command: 'system.info', params: {}, timeoutMs: 30_000 }])
      const node = await connectNode(protocol, gateway, token)
      await waitFor('the command', () => node.commands.length === 1)
      assert.equal(node.commands[0]!.timeoutMs, 30_000)
      answering(node)
      assert.equal((await wait(gateway, admin, polled)).status, 'succeeded')
      await node.close()
      await waitFor(
        'the node to be offline',
        async () => (await gateway.call('GET', '/nodes/robot', { token: admin })).body.status === 'offline',
      )
    })

  it('bound how often a user decides and cancels', async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, () => send(gateway, admin, 'robot', { command: 'system.info' })))
    const statuses = []
    for (const id of ids) statuses.push((await gateway.call('POST', `/nodes/commands/${id}/cancel`, { token: admin })).status)
    // One decision was the approval of the node.
    assert.deepEqual(statuses, [200, 200, 200, 429, 429])
  })
})
