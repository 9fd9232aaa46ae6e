import assert from 'node:assert/strict'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { identityIn } from '../../../sdk/node/index.js'
import { HeldCommand, NodeHouse, untilOnline } from '../../sdk/node/support.js'
import { clockAhead } from '../../support/clockAhead.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, SECRET, send, untilStatus, wait, type Protocol, type TestNode } from './support.js'

const HOUR_MS = 3_600_000
const CLOCKED_NODE = fileURLToPath(new URL('./clockedNode.ts', import.meta.url))

describe('a node whose clock is wrong', () => {
  let gateway: TestGateway
  let admin: string
  let house: NodeHouse
  let child: ChildProcess | undefined

  before(async () => {
    gateway = await startGateway({ settings: { 'Service:Nodes:OfflineAfter': '3' } })
    admin = await login(gateway)
    house = new NodeHouse()
  })
  afterEach(async () => {
    if (child?.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill('SIGKILL')
    await exited
  })
  after(async () => {
    await house.stopAll()
    await gateway.stop()
  })

  for (const [name, offsetMs] of [
    ['hours-ahead', 7 * HOUR_MS],
    ['hours-behind', -7 * HOUR_MS],
  ] as const)
    it(`by ${name.replace('-', ' ')}: is online, does what it is asked to in time, and ends in time what takes too long`, async () => {
      const directory = await house.pair(gateway, admin, name, ['test.sleep'])
      child = spawn(process.execPath, ['--import', 'tsx', ...clockAhead(offsetMs), CLOCKED_NODE, directory], { stdio: 'ignore' })
      await untilStatus(gateway, admin, name, 'online')
      const done = await wait(gateway, admin, await send(gateway, admin, name, { command: 'test.sleep', timeoutMs: 20_000 }))
      assert.equal(done.status, 'succeeded')
      assert.ok(Math.abs(Date.parse(done.result.clock) - Date.now() - offsetMs) < 60_000, 'its clock is wrong')
      assert.ok(done.durationMs < 20_000)
      const late = await wait(
        gateway,
        admin,
        await send(gateway, admin, name, { command: 'test.sleep', params: { ms: 60_000 }, timeoutMs: 300 }),
      )
      assert.deepEqual([late.status, late.error.code], ['timed_out', 'timeout'])
      assert.match(late.error.message, /did not end within 300 ms/)
      const shown = (await gateway.call('GET', `/nodes/${name}`, { token: admin })).body
      assert.equal(shown.status, 'online')
      assert.ok(Math.abs(Date.parse(shown.lastSeenAt) - Date.now()) < 60_000, 'by the clock of the gateway')
      const [crash] = (await gateway.call('GET', `/nodes/${name}/crashes`, { token: admin })).body.items
      assert.ok(Math.abs(Date.parse(crash.occurredAt) - Date.now() - offsetMs) < 60_000)
      assert.ok(Math.abs(Date.parse(crash.createdAt) - Date.now()) < 60_000)
    })
})

describe('the token of a node that is away', () => {
  let gateway: TestGateway
  let admin: string
  let house: NodeHouse

  before(async () => {
    gateway = await startGateway({ settings: { 'Service:Nodes:RotationGrace': '0.2' } })
    admin = await login(gateway)
    house = new NodeHouse()
  })
  after(async () => {
    await house.stopAll()
    await gateway.stop()
  })

  const rotate = async (nodeId: string): Promise<{ token: string; oldTokenUntil: string | null }> =>
    (await gateway.call('POST', `/nodes/${nodeId}/rotate-token`, { token: admin })).body

  it('is dead after a rotation; with the new one it comes back, and does what waited', async () => {
    const held = new HeldCommand('test.held')
    held.release()
    const directory = await house.pair(gateway, admin, 'away', ['test.held'])
    const commandId = await send(gateway, admin, 'away', { command: 'test.held' })
    const { token, oldTokenUntil } = await rotate('away')
    await waitFor('the end of the old token', () => Date.now() > Date.parse(oldTokenUntil!))
    const old = await house.start(directory, { commands: [held.command] })
    assert.equal(await old.ended, 'unauthenticated')
    const identity = identityIn(directory)
    await identity.save({ ...(await identity.load())!, token })
    await untilOnline(await house.start(directory, { commands: [held.command] }))
    assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
    assert.equal(held.runs.length, 1)
  })

  it('that was approved and never fetched can be made anew, and is the first one then', async () => {
    await gateway.call('POST', '/nodes/pairing/request', { body: { nodeId: 'shy', pairingSecret: SECRET } })
    await gateway.call('POST', '/nodes/shy/approve', { token: admin, body: { scopes: ['system.info'] } })
    const { token, oldTokenUntil } = await rotate('shy')
    assert.equal(oldTokenUntil, null)
    const polled = await gateway.call('POST', '/nodes/me/pair', { body: { nodeId: 'shy', pairingSecret: SECRET } })
    assert.equal(polled.status, 409, 'there is a token, and it was handed out')
    const node = answering(await connectNode('signalr', gateway, token))
    assert.equal((await wait(gateway, admin, await send(gateway, admin, 'shy', { command: 'system.info' }))).status, 'succeeded')
    await node.close()
  })
})

for (const protocol of ['socket.io', 'signalr'] satisfies Protocol[])
  describe(`a node that misbehaves over ${protocol}`, () => {
    let gateway: TestGateway
    let admin: string
    let token: string
    let node: TestNode

    before(async () => {
      gateway = await startGateway()
      admin = await login(gateway)
      token = await pairNode(gateway, admin, 'robot', ['system.info'])
    })
    beforeEach(async () => {
      node = await connectNode(protocol, gateway, token)
    })
    afterEach(() => node.close())
    after(() => gateway.stop())

    const result = (commandId: string, more: Record<string, unknown> = {}): void =>
      node.invoke('CommandResult', { commandId, ok: true, result: {}, durationMs: 1, ...more })
    const given = async (timeoutMs = 60_000): Promise<string> => {
      const commandId = await send(gateway, admin, 'robot', { command: 'system.info', timeoutMs })
      await waitFor('the command', () => node.commands.some(command => command.commandId === commandId))
      return commandId
    }
    const refusals = async (commandId: string): Promise<string[]> => {
      const { items } = (await gateway.call('GET', '/nodes/robot/audit?limit=200', { token: admin })).body
      return (items as { details: { commandId?: string; why?: string } }[])
        .filter(({ details }) => details.commandId === commandId)
        .map(({ details }) => details.why ?? '')
    }

    it('has one result recorded of a command that it answers over and over, differently', async () => {
      const commandId = await given()
      for (let i = 0; i < 20; i++)
        result(commandId, i % 3 === 2 ? { ok: false, error: { code: 'cancelled', message: 'no' } } : { result: { i } })
      await waitFor('the refusals', async () => (await refusals(commandId)).length === 19)
      const recorded = await wait(gateway, admin, commandId)
      assert.equal(recorded.status, 'succeeded')
      assert.deepEqual(recorded.result, { i: 0 })
      assert.deepEqual(new Set(await refusals(commandId)), new Set(['again']))
    })

    it('has a result of more than 12 MiB in parts recorded as a failure, once', async () => {
      const commandId = await given()
      for (let partIndex = 0; partIndex < 14; partIndex++)
        result(commandId, { result: { text: 'x'.repeat(1_048_000) }, partIndex, isLast: partIndex === 13 })
      const { status, error } = await wait(gateway, admin, commandId, 60_000)
      assert.deepEqual([status, error.code], ['failed', 'internal_error'])
      assert.match(error.message, /larger than 12582912 bytes/)
      assert.equal((await wait(gateway, admin, await answeredOnce())).status, 'succeeded')
    })

    it('has its result refused once the command was cancelled or its time was over, and the next one taken', async () => {
      const cancelled = await given()
      await gateway.call('POST', `/nodes/commands/${cancelled}/cancel`, { token: admin })
      const late = await given(50)
      assert.equal((await wait(gateway, admin, late)).status, 'timed_out')
      for (const commandId of [cancelled, late]) {
        result(commandId)
        await waitFor('the refusal', async () => (await refusals(commandId)).join() === 'late')
      }
      assert.deepEqual(
        [(await wait(gateway, admin, cancelled)).status, (await wait(gateway, admin, late)).status],
        ['cancelled', 'timed_out'],
      )
      assert.equal((await wait(gateway, admin, await answeredOnce())).status, 'succeeded')
    })

    it('has what it says in the moment of its revocation neither lost nor recorded twice', async () => {
      const ids = await Promise.all(Array.from({ length: 20 }, () => given()))
      const revoking = gateway.call('POST', '/nodes/robot/revoke', { token: admin })
      for (const commandId of ids) result(commandId)
      assert.equal((await revoking).status, 200)
      const ended = await Promise.all(ids.map(commandId => wait(gateway, admin, commandId)))
      assert.ok(ended.every(({ status, error }) => status === 'succeeded' || (status === 'failed' && error.code === 'not_authorized')))
      await waitFor('the end', () => !node.isOpen())
      assert.deepEqual(await Promise.all(ids.map(commandId => wait(gateway, admin, commandId))), ended)
      token = await pairNode(gateway, admin, 'robot', ['system.info'])
    })

    const answeredOnce = async (): Promise<string> => {
      const commandId = await given()
      result(commandId)
      return commandId
    }
  })
