import assert from 'node:assert/strict'
import { chmod, readFile, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { identityIn, pairNode, startNode } from '../../../sdk/node/index.js'
import { send, untilStatus, wait } from '../../plugins/nodes/support.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { echo, HeldCommand, NodeHouse, Proxy, untilOnline } from './support.js'

describe('a node written with the SDK', () => {
  let gateway: TestGateway
  let admin: string
  let house: NodeHouse
  const audited = async (nodeId: string): Promise<{ action: string; outcome: string; details: Record<string, unknown> }[]> =>
    (await gateway.call('GET', `/nodes/${nodeId}/audit`, { token: admin })).body.items

  before(async () => {
    gateway = await startGateway()
    admin = await login(gateway)
  })
  after(() => gateway.stop())
  beforeEach(() => (house = new NodeHouse()))
  afterEach(() => house.stopAll())

  describe('pairing', () => {
    it('shows the code, waits for the approval, and keeps the token where its owner alone can read it', async () => {
      const directory = await house.pair(gateway, admin, 'paired', [])
      const file = identityIn(directory)
      assert.equal((await stat(file.path)).mode & 0o777, 0o600)
      const { nodeId, token, gatewayUrl, pairing } = (await file.load())!
      assert.deepEqual([nodeId, gatewayUrl, pairing], ['paired', gateway.url, undefined])
      assert.match(token!, /^paired\.[\w-]{43}$/)
      await chmod(file.path, 0o644)
      await assert.rejects(file.load(), /chmod 600/)
      await chmod(file.path, 0o600)
      await assert.rejects(pairNode({ gatewayUrl, nodeId, identity: file, onCode: () => undefined }), /is paired .* already/)
      await gateway.call('POST', '/nodes/paired/revoke', { token: admin })
      const onCode = (): void => void gateway.call('POST', '/nodes/paired/approve', { token: admin })
      const again = await pairNode({ gatewayUrl, nodeId, identity: file, pollIntervalMs: 20, onCode })
      assert.ok(again.token !== undefined && again.token !== token)
    })

    it('goes on where a process before it was interrupted, even when it was approved meanwhile', async () => {
      const identity = identityIn(await house.directory())
      const options = { gatewayUrl: `${gateway.url}/api/`, nodeId: 'interrupted', identity, pollIntervalMs: 20 }
      const codes: string[] = []
      const onCode = (code: string): void => void codes.push(code)
      const stop = new AbortController()
      const first = pairNode({ ...options, onCode, signal: stop.signal })
      await waitFor('the code', () => codes.length === 1)
      stop.abort(new Error('killed'))
      await assert.rejects(first, /killed/)
      const stopAgain = new AbortController()
      const second = pairNode({ ...options, onCode, signal: stopAgain.signal })
      await waitFor('the code again', () => codes.length === 2)
      assert.equal(codes[1], codes[0])
      stopAgain.abort(new Error('killed'))
      await assert.rejects(second, /killed/)
      await gateway.call('POST', '/nodes/interrupted/approve', { token: admin })
      assert.ok((await pairNode({ ...options, onCode })).token)
    })

    it('rejects when it is rejected, and when another machine has the name', async () => {
      const identity = identityIn(await house.directory())
      const options = { gatewayUrl: gateway.url, nodeId: 'unwanted', identity, pollIntervalMs: 20 }
      const pairing = pairNode({ ...options, onCode: () => void gateway.call('POST', '/nodes/unwanted/reject', { token: admin }) })
      await assert.rejects(pairing, /rejected/)
      await house.pair(gateway, admin, 'taken', [])
      await assert.rejects(pairNode({ ...options, nodeId: 'taken', onCode: () => undefined }), { code: 'conflict' })
      await assert.rejects(startNode({ identity, stateDir: await house.directory(), commands: [], scopes: [], version: '1' }), /not paired/)
    })
  })

  describe('on the hub', () => {
    it('runs a command and answers with its result, its heartbeat beside it', async () => {
      const directory = await house.pair(gateway, admin, 'worker', ['test.echo'])
      await untilOnline(await house.start(directory, { commands: [echo] }))
      const outcome = await wait(
        gateway,
        admin,
        await send(gateway, admin, 'worker', { command: 'test.echo', params: { text: 'hello', other: 1 } }),
      )
      assert.deepEqual([outcome.status, outcome.result], ['succeeded', { text: 'hello' }])
      const { transport, version, platform, memoryMb, uptime } = (await gateway.call('GET', '/nodes/worker', { token: admin })).body
      assert.deepEqual([transport, version, platform], ['socket.io', '1.0.0', process.platform])
      assert.ok(memoryMb > 10 && uptime >= 0)
    })

    it('answers wrong parameters, an unknown command and a failure with their codes', async () => {
      const directory = await house.pair(gateway, admin, 'codes', ['test.echo', 'test.none'])
      await untilOnline(await house.start(directory, { commands: [echo] }))
      const errorOf = async (body: Record<string, unknown>) => (await wait(gateway, admin, await send(gateway, admin, 'codes', body))).error
      assert.deepEqual(await errorOf({ command: 'test.echo', params: { text: 7 } }), {
        code: 'invalid_params',
        message: 'text: a text is needed',
        details: { path: 'text' },
      })
      assert.equal((await errorOf({ command: 'test.none' })).code, 'platform_unsupported')
    })

    it('splits a large result, and the gateway joins it', async () => {
      const directory = await house.pair(gateway, admin, 'large', ['test.echo'])
      const text = 'ä😀'.repeat(900_000)
      const commands = [{ ...echo, params: {}, run: () => Promise.resolve({ text, kind: 'large' }) }]
      await untilOnline(await house.start(directory, { commands }))
      const outcome = await wait(gateway, admin, await send(gateway, admin, 'large', { command: 'test.echo' }))
      assert.equal(outcome.status, 'succeeded')
      assert.ok(outcome.result.text === text && outcome.result.kind === 'large')
      assert.equal(outcome.truncated, undefined)
    })

    it('runs commands side by side, and those of one lane one after the other', async () => {
      const directory = await house.pair(gateway, admin, 'lanes', ['input.control', 'test.free'])
      const typing = new HeldCommand('input.type', { lane: 'input' })
      const clicking = new HeldCommand('input.click', { lane: 'input' })
      const free = new HeldCommand('test.free')
      await untilOnline(await house.start(directory, { commands: [typing.command, clicking.command, free.command] }))
      const ids = []
      for (const command of ['input.type', 'input.click', 'test.free', 'test.free'])
        ids.push(await send(gateway, admin, 'lanes', { command }))
      await waitFor('what may run to run', () => typing.runs.length === 1 && free.runs.length === 2)
      assert.equal(clicking.runs.length, 0)
      typing.release()
      await waitFor('the next of the lane', () => clicking.runs.length === 1)
      for (const held of [clicking, free]) held.release()
      for (const id of ids) assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
    })

    it('is busy beyond what may run and wait, and is asked again', async () => {
      const directory = await house.pair(gateway, admin, 'busy', ['test.echo'])
      let refusals = 0
      const commands = [
        {
          ...echo,
          check: async () => {
            const { busy } = await import('../../../sdk/node/index.js')
            if (++refusals < 3) throw busy('not now', 100)
          },
        },
      ]
      await untilOnline(await house.start(directory, { commands }))
      const outcome = await wait(gateway, admin, await send(gateway, admin, 'busy', { command: 'test.echo', params: { text: 'x' } }))
      assert.deepEqual([outcome.status, refusals], ['succeeded', 3])
    })

    it('ends a command that takes too long, and one that is cancelled at the gateway', async () => {
      const directory = await house.pair(gateway, admin, 'ending', ['test.held'])
      const held = new HeldCommand('test.held')
      await untilOnline(await house.start(directory, { commands: [held.command] }))
      const late = await send(gateway, admin, 'ending', { command: 'test.held', timeoutMs: 150 })
      assert.equal((await wait(gateway, admin, late)).status, 'timed_out')
      await waitFor('the command to be aborted', () => held.aborted.includes(late))
      const id = await send(gateway, admin, 'ending', { command: 'test.held' })
      await waitFor('the command', () => held.runs.includes(id))
      await gateway.call('POST', `/nodes/commands/${id}/cancel`, { token: admin })
      await waitFor('the command to be aborted', () => held.aborted.includes(id))
    })

    it('tells how far a command is', async () => {
      const directory = await house.pair(gateway, admin, 'progressing', ['test.held'])
      const held = new HeldCommand('test.held')
      const commands = [
        {
          ...held.command,
          run: (params: never, context: Parameters<typeof held.command.run>[1]) => {
            context.progress({ percent: 40, message: 'copying' })
            return held.command.run(params, context)
          },
        },
      ]
      await untilOnline(await house.start(directory, { commands }))
      const id = await send(gateway, admin, 'progressing', { command: 'test.held' })
      const recordOf = async () =>
        (await gateway.call('GET', '/nodes/progressing/commands', { token: admin })).body.items.find(
          (one: { commandId: string }) => one.commandId === id,
        )
      await waitFor('the progress', async () => (await recordOf()).status === 'running')
      assert.deepEqual((await recordOf()).progress, { percent: 40, message: 'copying' })
      held.release()
      assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
    })
  })

  describe('its scopes', () => {
    it('let nothing run that the machine does not allow, whatever the gateway says', async () => {
      const directory = await house.pair(gateway, admin, 'careful', ['test.echo', 'input.control'])
      const typing = new HeldCommand('input.type')
      typing.release()
      const node = await house.start(directory, { commands: [echo, typing.command], scopes: ['test.*'] })
      await untilOnline(node)
      assert.deepEqual(node.scopes, ['test.echo'])
      const refused = await wait(gateway, admin, await send(gateway, admin, 'careful', { command: 'input.type' }))
      assert.deepEqual([refused.error.code, refused.error.details.by], ['not_authorized', 'node'])
      assert.deepEqual(typing.runs, [])
      node.setScopes(['input.control'])
      assert.equal((await wait(gateway, admin, await send(gateway, admin, 'careful', { command: 'input.type' }))).status, 'succeeded')
    })

    it('change at once, are acknowledged, and end what they do not allow any more', async () => {
      const directory = await house.pair(gateway, admin, 'changing', [])
      const held = new HeldCommand('test.held')
      const node = await house.start(directory, { commands: [held.command] })
      await untilOnline(node)
      await gateway.call('PUT', '/nodes/changing/permissions', { token: admin, body: { scopes: ['test.held'] } })
      const id = await send(gateway, admin, 'changing', { command: 'test.held' })
      await waitFor('the command', () => held.runs.length === 1)
      await gateway.call('PUT', '/nodes/changing/permissions', { token: admin, body: { scopes: [] } })
      const outcome = await wait(gateway, admin, id)
      assert.deepEqual([outcome.error.code, held.aborted, node.scopes], ['not_authorized', [id], []])
    })
  })

  describe('its token', () => {
    it('is replaced while it runs, by hand or in its file, and commands go on', async () => {
      const directory = await house.pair(gateway, admin, 'rotated', ['test.held'])
      const held = new HeldCommand('test.held')
      const node = await house.start(directory, { commands: [held.command] })
      await untilOnline(node)
      const id = await send(gateway, admin, 'rotated', { command: 'test.held' })
      await waitFor('the command', () => held.runs.length === 1)
      const rotate = async (): Promise<string> => (await gateway.call('POST', '/nodes/rotated/rotate-token', { token: admin })).body.token
      const file = identityIn(directory)
      const known = (await file.load())!
      const second = await rotate()
      await file.save({ ...known, token: second })
      // The old token is good until the new one is used.
      const isRefused = async (token: string) => (await gateway.call('GET', '/nodes/me', { token })).status === 401
      await waitFor('the new token to be used', () => isRefused(known.token!))
      await untilOnline(node)
      const third = await rotate()
      await assert.rejects(node.useToken('another.token'), /no token of rotated/)
      await node.useToken(third)
      await waitFor('the newest token to be used', () => isRefused(second))
      await untilOnline(node)
      assert.equal((await file.load())!.token, third)
      held.release()
      assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
      assert.equal(held.runs.length, 1)
    })

    it('is forgotten when the node is revoked, which ends it', async () => {
      const directory = await house.pair(gateway, admin, 'revoked', ['test.held'])
      const held = new HeldCommand('test.held')
      const node = await house.start(directory, { commands: [held.command] })
      await untilOnline(node)
      await send(gateway, admin, 'revoked', { command: 'test.held' })
      await waitFor('the command', () => held.runs.length === 1)
      await gateway.call('POST', '/nodes/revoked/revoke', { token: admin })
      assert.equal(await node.ended, 'revoked')
      assert.equal(held.aborted.length, 1)
      assert.equal((await identityIn(directory).load())!.token, undefined)
      assert.doesNotMatch(await readFile(identityIn(directory).path, 'utf8'), /token/)
    })

    it('taken over by another process, lets that one repeat what only looks, and report the rest as interrupted', async () => {
      const directory = await house.pair(gateway, admin, 'successor', ['test.look', 'test.act'])
      const commandsOf = () => [new HeldCommand('test.look', { repeatable: true }), new HeldCommand('test.act')] as const
      const first = commandsOf()
      await untilOnline(await house.start(directory, { commands: first.map(({ command }) => command) }))
      const looked = await send(gateway, admin, 'successor', { command: 'test.look' })
      const acted = await send(gateway, admin, 'successor', { command: 'test.act' })
      await waitFor('the commands', () => first.every(({ runs }) => runs.length === 1))
      const second = commandsOf()
      for (const held of second) held.release()
      await house.start(directory, { commands: second.map(({ command }) => command) })
      assert.equal((await wait(gateway, admin, looked)).status, 'succeeded')
      const { status, error } = await wait(gateway, admin, acted)
      assert.deepEqual([status, error.details], ['failed', { interrupted: true }])
      assert.deepEqual(
        second.map(({ runs }) => runs),
        [[looked], []],
      )
    })

    it('ends the node when it is not accepted, and when another process uses it', async () => {
      const directory = await house.pair(gateway, admin, 'twice', [])
      const first = await house.start(directory)
      await untilOnline(first)
      const second = await house.start(directory, { stateDir: await house.directory() })
      assert.equal(await first.ended, 'replaced')
      await untilOnline(second)
      const file = identityIn(await house.directory())
      await file.save({ nodeId: 'twice', gatewayUrl: gateway.url, token: 'twice.wrong' })
      assert.equal(
        await (
          await startNode({ identity: file, stateDir: join(file.path, '..'), commands: [], scopes: [], version: '1' })
        ).ended,
        'unauthenticated',
      )
    })
  })

  describe('when it is stopped', () => {
    it('reports what ran as cancelled, and is offline', async () => {
      const directory = await house.pair(gateway, admin, 'stopped', ['test.held'])
      const held = new HeldCommand('test.held')
      const node = await house.start(directory, { commands: [held.command] })
      await untilOnline(node)
      const id = await send(gateway, admin, 'stopped', { command: 'test.held' })
      await waitFor('the command', () => held.runs.length === 1)
      await node.stop()
      assert.equal(await node.ended, 'stopped')
      assert.equal((await wait(gateway, admin, id)).status, 'cancelled')
      await untilStatus(gateway, admin, 'stopped', 'offline')
    })

    it('can report a crash', async () => {
      const directory = await house.pair(gateway, admin, 'crashed', [])
      const node = await house.start(directory)
      await node.reportCrash(new TypeError('it broke'))
      const [crash] = (await gateway.call('GET', '/nodes/crashed/crashes', { token: admin })).body.items
      assert.deepEqual([crash.message, crash.version, crash.platform], ['it broke', '1.0.0', process.platform])
    })
  })

  describe('behind a proxy', () => {
    let proxy: Proxy
    beforeEach(async () => {
      proxy = await new Proxy(gateway.url).listen()
    })
    afterEach(async () => {
      await house.stopAll()
      await proxy.close()
    })

    it('polls where no WebSocket gets through, and goes back to the hub, running each command once', async () => {
      const directory = await house.pair(gateway, admin, 'behind', ['test.held', 'test.echo'])
      const file = identityIn(directory)
      await file.save({ ...(await file.load())!, gatewayUrl: proxy.url })
      proxy.letsWebSocketsThrough = false
      const held = new HeldCommand('test.held')
      const node = await house.start(directory, { commands: [held.command, echo] })
      await untilOnline(node, 'polling')
      const ids = [await send(gateway, admin, 'behind', { command: 'test.held' })]
      await waitFor('the command by polling', () => held.runs.length === 1)
      const echoed = await send(gateway, admin, 'behind', { command: 'test.echo', params: { text: 'polled' } })
      assert.deepEqual((await wait(gateway, admin, echoed)).result, { text: 'polled' })

      proxy.letsWebSocketsThrough = true
      await untilOnline(node, 'hub')
      ids.push(await send(gateway, admin, 'behind', { command: 'test.held' }))
      await waitFor('the command over the hub', () => held.runs.length === 2)

      proxy.letsWebSocketsThrough = false
      proxy.cutWebSockets()
      await untilOnline(node, 'polling')
      ids.push(await send(gateway, admin, 'behind', { command: 'test.held' }))
      await waitFor('the command by polling', () => held.runs.length === 3)
      held.release()
      for (const id of ids) assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
      assert.deepEqual([...held.runs].sort(), [...ids].sort())
      assert.deepEqual(
        (await audited('behind')).filter(({ action }) => action === 'nodes.result'),
        [],
      )
    })

    it('polls a large result into the gateway, and hears of new scopes before it refuses', async () => {
      const directory = await house.pair(gateway, admin, 'polling', [])
      const text = 'x'.repeat(3_000_000)
      const commands = [{ ...echo, params: {}, run: () => Promise.resolve({ text }) }]
      const node = await house.start(directory, { commands, transport: 'polling', timing: { heartbeatMs: 60_000 } })
      await untilOnline(node, 'polling')
      await gateway.call('PUT', '/nodes/polling/permissions', { token: admin, body: { scopes: ['test.echo'] } })
      const outcome = await wait(gateway, admin, await send(gateway, admin, 'polling', { command: 'test.echo' }))
      assert.ok(outcome.result?.text === text, JSON.stringify(outcome.error))
      await gateway.call('POST', '/nodes/polling/revoke', { token: admin })
      assert.equal(await node.ended, 'unauthenticated')
    })

    it('keeps a result until the gateway has it, over a lost connection', async () => {
      const directory = await house.pair(gateway, admin, 'lossy', ['test.held'])
      const file = identityIn(directory)
      await file.save({ ...(await file.load())!, gatewayUrl: proxy.url })
      const held = new HeldCommand('test.held')
      const node = await house.start(directory, { commands: [held.command], transport: 'hub' })
      await untilOnline(node)
      const id = await send(gateway, admin, 'lossy', { command: 'test.held' })
      await waitFor('the command', () => held.runs.length === 1)
      proxy.letsWebSocketsThrough = false
      proxy.cutWebSockets()
      await waitFor('the node to be offline', () => node.state.kind !== 'online')
      held.release()
      proxy.letsWebSocketsThrough = true
      assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
      assert.deepEqual(held.runs, [id])
    })
  })
})
