import assert from 'node:assert/strict'
import { nodesPlugin } from '../../../plugins/nodes/index.js'
import { plugins } from '../../../plugins/index.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, send, status, untilStatus, wait, type Protocol, type TestNode } from './support.js'

const SCOPES = ['system.info', 'screen.capture']
const newer = [...plugins.filter(({ id }) => id !== 'nodes'), nodesPlugin(['2027-01-01', '2026-04-01'])]

for (const protocol of ['socket.io', 'signalr'] satisfies Protocol[])
  describe(`a node connected over ${protocol}`, () => {
    let gateway: TestGateway
    let admin: string
    let token: string
    let open: TestNode[]

    const start = async (options: Parameters<typeof startGateway>[0] = {}): Promise<void> => {
      gateway = await startGateway(options)
      admin = await login(gateway)
    }
    const restart = async (options: Parameters<typeof startGateway>[0] = {}): Promise<void> => {
      await gateway.stop({ keep: true })
      await start({ ...options, dataDir: gateway.dataDir })
    }
    beforeEach(async () => {
      open = []
      await start()
      token = await pairNode(gateway, admin, 'robot', SCOPES)
    })
    afterEach(async () => {
      await Promise.all(open.map(node => node.close()))
      await gateway.stop()
    })

    const connect = async (options: Parameters<typeof connectNode>[3] = {}, as = token): Promise<TestNode> => {
      const node = await connectNode(protocol, gateway, as, options)
      open.push(node)
      return node
    }
    const refusal = async (as: string, options: Parameters<typeof connectNode>[3] = {}): Promise<string> => {
      const error = await connect(options, as).then(
        () => assert.fail('it was let in'),
        (thrown: unknown) => thrown as Error & { data?: { code: string } },
      )
      return `${error.data?.code ?? ''} ${error.message}`
    }
    const enqueue = (body: Record<string, unknown> = { command: 'system.info' }) => send(gateway, admin, 'robot', body)
    const audited = async () =>
      (await gateway.call('GET', '/nodes/robot/audit', { token: admin })).body.items as {
        action: string
        outcome: string
        details: { why?: string }
      }[]
    const permit = (scopes: string[]) => gateway.call('PUT', '/nodes/robot/permissions', { token: admin, body: { scopes } })

    it('gets a command as the specification shapes it, and its result reaches who waits', async () => {
      const node = answering(await connect())
      await untilStatus(gateway, admin, 'robot', 'online')
      const commandId = await enqueue({ command: 'system.info', params: { a: 1 }, timeoutMs: 5000 })
      const ended = await wait(gateway, admin, commandId)
      assert.deepEqual(ended, { commandId, status: 'succeeded', ok: true, result: { a: 1 }, durationMs: 1 })
      const me = (await gateway.call('GET', '/auth/me', { token: admin })).body
      assert.deepEqual(node.commands, [
        {
          commandId,
          command: 'system.info',
          params: { a: 1 },
          timeoutMs: 5000,
          originatedBy: { userId: me.id, agentId: '', sessionId: '' },
          protocolVersion: '2026-04-01',
        },
      ])
      const shown = (await gateway.call('GET', '/nodes/robot', { token: admin })).body
      assert.deepEqual([shown.status, shown.transport, shown.protocolVersion], ['online', protocol, '2026-04-01'])
    })

    it('works on many commands at once, each answered for itself', async () => {
      const node = await connect()
      node.onCommand = ({ commandId, params }) => {
        setTimeout(() => node.invoke('CommandResult', { commandId, ok: true, result: params, durationMs: 1 }), Math.random() * 50)
      }
      const results = await Promise.all(
        Array.from({ length: 400 }, async (_, i) => {
          const commandId = await enqueue({ command: 'system.info', params: { i } })
          return (await wait(gateway, admin, commandId)).result.i === i
        }),
      )
      assert.ok(results.every(Boolean))
      assert.equal(new Set(node.commands.map(({ commandId }) => commandId)).size, 400)
      assert.equal(node.commands.length, 400)
    })

    it('is refused with a reason: a wrong token, none, an unknown or revoked node, a version that nobody speaks', async () => {
      for (const wrong of ['robot.wrong', '', 'nobody.x', token.toUpperCase()]) assert.match(await refusal(wrong), /unauthenticated.*token/)
      assert.match(await refusal(token, { protocolVersions: '2025-01-01,2025-06-01' }), /protocol_unsupported.*2026-04-01/)
      await gateway.call('POST', '/nodes/robot/revoke', { token: admin })
      assert.match(await refusal(token), /unauthenticated/)
      assert.equal(await status(gateway, admin, 'robot'), 'offline')
    })

    it('speaks the newest version that both know, and the oldest when it offers none', async () => {
      await restart({ plugins: newer })
      const spoken = async (protocolVersions?: string): Promise<string | undefined> => {
        const node = answering(await connect(protocolVersions === undefined ? {} : { protocolVersions }))
        await wait(gateway, admin, await enqueue())
        await node.close()
        return node.commands[0]?.protocolVersion
      }
      assert.equal(await spoken(), '2026-04-01')
      assert.equal(await spoken('2027-01-01,2026-04-01'), '2027-01-01')
      assert.equal(await spoken('2028-01-01, 2026-04-01'), '2026-04-01')
    })

    it('tells how it is with its heartbeats, is pinged, and goes offline without them', async () => {
      await restart({ settings: { 'Service:Nodes:OfflineAfter': '1', 'Service:Nodes:PingInterval': '0.2' } })
      const node = await connect()
      const beat = { nodeId: 'robot', status: 'online', uptime: 7, platform: 'linux', version: '3.1.4', cpuPercent: 12.5, memoryMb: 100 }
      let [since, last, beatAt] = [performance.now(), performance.now(), Date.now()]
      while (performance.now() - since < 2000) {
        beatAt = Date.now()
        node.invoke('Heartbeat', beat)
        await new Promise(resolve => setTimeout(resolve, 100))
        const shown = await status(gateway, admin, 'robot')
        const silence = performance.now() - last
        last += silence
        if (silence < 500) assert.equal(shown, 'online')
        else {
          // The machine was busy with other things: it may be offline by right. So the time of beats starts again.
          await untilStatus(gateway, admin, 'robot', 'online')
          since = last = performance.now()
        }
      }
      const shown = (await gateway.call('GET', '/nodes/robot', { token: admin })).body
      assert.deepEqual([shown.uptime, shown.version, shown.cpuPercent, shown.memoryMb], [7, '3.1.4', 12.5, 100])
      // The beat before the last one is there for sure.
      assert.ok(Date.parse(shown.lastSeenAt) > beatAt - 1000 && Date.parse(shown.lastSeenAt) <= Date.now())
      assert.ok(node.isOpen())
      // Beats for another node, and what is none, count for nothing.
      node.invoke('Heartbeat', { ...beat, nodeId: 'other' })
      node.invoke('Heartbeat', 'text')
      await untilStatus(gateway, admin, 'robot', 'offline')
      const commandId = await enqueue()
      assert.equal((await wait(gateway, admin, commandId, 0)).status, 'queued')
    })

    it('gets what waited for it, oldest first, and again what it had lost, under the same id', async () => {
      const ids = [await enqueue(), await enqueue(), await enqueue()]
      const node = await connect()
      await waitFor('the queue', () => node.commands.length === 3)
      assert.deepEqual(
        node.commands.map(({ commandId }) => commandId),
        ids,
      )
      await node.close()
      await untilStatus(gateway, admin, 'robot', 'offline')
      const again = answering(await connect())
      for (const id of ids) assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
      assert.deepEqual(again.commands.map(({ commandId }) => commandId).sort(), ids.sort())
    })

    it('does not get again what has timed out meanwhile', async () => {
      const node = await connect()
      const commandId = await enqueue({ command: 'system.info', timeoutMs: 100 })
      await waitFor('the command', () => node.commands.length === 1)
      const ended = await wait(gateway, admin, commandId)
      assert.deepEqual([ended.status, ended.ok, ended.error.code], ['timed_out', false, 'timeout'])
      await node.close()
      const again = answering(await connect())
      await wait(gateway, admin, await enqueue())
      assert.equal(again.commands.length, 1)
      again.invoke('CommandResult', { commandId, ok: true, result: {}, durationMs: 1 })
      await waitFor('the late result in the audit', async () => (await audited()).some(({ details }) => details.why === 'late'))
      assert.equal((await wait(gateway, admin, commandId)).status, 'timed_out')
    })

    it('is told of changed scopes and acknowledges them; a node that was away hears of it when it is back', async () => {
      const node = answering(await connect())
      const scopes = ['system.info', 'input.control']
      await permit(scopes)
      await waitFor('RefreshScopes', () => node.heard.length === 1)
      assert.deepEqual(node.heard, [{ method: 'RefreshScopes', argument: scopes }])
      node.invoke('ScopeChanged', scopes)
      // What comes after it is on disk after it.
      assert.equal((await wait(gateway, admin, await enqueue({ command: 'input.move' }))).status, 'succeeded')
      await node.close()
      const again = answering(await connect())
      assert.equal((await wait(gateway, admin, await enqueue())).status, 'succeeded')
      assert.deepEqual(again.heard, [])
      await again.close()
      await untilStatus(gateway, admin, 'robot', 'offline')
      await permit(['c.d'])
      const third = await connect()
      await waitFor('RefreshScopes', () => third.heard.length === 1)
      assert.deepEqual(third.heard[0]?.argument, ['c.d'])
    })

    it('is told that it is revoked, disconnected, and does not come back; what it still had to do has failed', async () => {
      const node = await connect({ reconnects: true })
      const running = await enqueue({ command: 'system.info', timeoutMs: 60_000 })
      await waitFor('the command', () => node.commands.length === 1)
      assert.equal((await gateway.call('POST', '/nodes/robot/revoke', { token: admin })).body.status, 'offline')
      await waitFor('the end', () => !node.isOpen())
      assert.deepEqual(node.heard, [{ method: 'RevokeAccess', argument: { reason: 'admin_revoked' } }])
      const ended = await wait(gateway, admin, running)
      assert.deepEqual([ended.status, ended.error.code], ['failed', 'not_authorized'])
      assert.equal((await gateway.call('POST', '/nodes/robot/commands', { token: admin, body: { command: 'system.info' } })).status, 409)
      await new Promise(resolve => setTimeout(resolve, 300))
      assert.ok(!node.isOpen(), 'the client of the protocol does not reconnect by itself')
      assert.match(await refusal(token), /unauthenticated/)
    })

    it('is replaced by a second connection of the same node, which gets its commands', async () => {
      const first = await connect({ reconnects: true })
      const commandId = await enqueue()
      await waitFor('the command', () => first.commands.length === 1)
      const second = answering(await connect())
      await waitFor('the end of the first', () => !first.isOpen())
      assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
      assert.equal(await status(gateway, admin, 'robot'), 'online')
      await new Promise(resolve => setTimeout(resolve, 300))
      assert.ok(second.isOpen() && !first.isOpen())
    })

    it('loses nothing when its token is rotated while it is connected', async () => {
      const node = answering(await connect())
      const { token: rotated } = (await gateway.call('POST', '/nodes/robot/rotate-token', { token: admin })).body
      assert.equal((await wait(gateway, admin, await enqueue())).status, 'succeeded')
      await node.close()
      const again = answering(await connect({}, rotated))
      assert.equal((await wait(gateway, admin, await enqueue())).status, 'succeeded')
      assert.match(await refusal(token), /unauthenticated/)
      assert.ok(again.isOpen())
    })

    it('is let go with its old token when the time of that is over, and comes back with the new one only', async () => {
      await restart({ settings: { 'Service:Nodes:RotationGrace': '0.5' } })
      const node = await connect({ reconnects: true })
      const commandId = await enqueue({ command: 'system.info', timeoutMs: 60_000 })
      await waitFor('the command', () => node.commands.length === 1)
      const { token: rotated, oldTokenUntil } = (await gateway.call('POST', '/nodes/robot/rotate-token', { token: admin })).body
      await waitFor('the end', () => !node.isOpen())
      assert.ok(Date.now() >= Date.parse(oldTokenUntil))
      assert.match(await refusal(token), /unauthenticated/)
      answering(await connect({}, rotated))
      assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
    })

    it('may change between the hub and polling without running a command twice', async () => {
      const node = await connect()
      const poll = async () => (await gateway.call('GET', '/nodes/me/commands', { token })).body.commands as { commandId: string }[]
      const first = await enqueue()
      await waitFor('the command', () => node.commands.length === 1)
      assert.deepEqual(await poll(), [], 'the hub has it')
      await node.close()
      await untilStatus(gateway, admin, 'robot', 'offline')
      assert.deepEqual(
        (await poll()).map(({ commandId }) => commandId),
        [first],
      )
      assert.deepEqual(await poll(), [])
      const body = { ok: true, result: { by: 'poll' }, durationMs: 1 }
      await gateway.call('POST', `/nodes/me/commands/${first}/result`, { token, body })
      const second = await enqueue()
      assert.equal((await poll()).length, 1)
      const again = await connect()
      await waitFor('the second once more', () => again.commands.length === 1)
      assert.equal(again.commands[0]?.commandId, second)
      // The result may come on either way, and counts once.
      await gateway.call('POST', `/nodes/me/commands/${second}/result`, { token, body })
      again.invoke('CommandResult', { commandId: second, ok: true, result: { by: 'hub' }, durationMs: 1 })
      await waitFor('the second result in the audit', async () => (await audited()).some(({ details }) => details.why === 'again'))
      assert.deepEqual((await wait(gateway, admin, second)).result, { by: 'poll' })
    })

    it('sends large results in parts and fields over 1 MiB in one frame, which are cut', async () => {
      const node = await connect()
      node.onCommand = ({ commandId, command }) => {
        if (command === 'system.info')
          node.invoke('CommandResult', { commandId, ok: true, result: { text: 'x'.repeat(1_500_000), n: 1 }, durationMs: 1 })
        else
          for (const partIndex of [1, 2, 0])
            node.invoke('CommandResult', {
              commandId,
              ok: true,
              result: { image: String(partIndex).repeat(1_048_576), partIndex },
              durationMs: 5,
              partIndex,
              isLast: partIndex === 2,
            })
      }
      const cut = await wait(gateway, admin, await enqueue())
      assert.deepEqual([cut.result.text.length, cut.result.n, cut.truncated], [1_048_576, 1, ['text']])
      const whole = await wait(gateway, admin, await enqueue({ command: 'screen.capture' }))
      assert.equal(whole.status, 'succeeded')
      assert.ok(whole.result.image === '0'.repeat(1_048_576) + '1'.repeat(1_048_576) + '2'.repeat(1_048_576))
      assert.deepEqual([whole.result.partIndex, whole.truncated], [2, undefined])
      assert.ok(node.isOpen())
    })

    it('is asked again after it was busy', async () => {
      const node = await connect()
      node.onCommand = ({ commandId }) => {
        const error = { code: 'busy', message: 'later', retryAfterMs: 100 }
        const isFirst = node.commands.length === 1
        node.invoke('CommandResult', isFirst ? { commandId, ok: false, error, durationMs: 1 } : { commandId, ok: true, durationMs: 1 })
      }
      const commandId = await enqueue()
      assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
      assert.deepEqual(
        node.commands.map(command => command.commandId),
        [commandId, commandId],
      )
    })

    it('is refused malformed and foreign results, and goes on; the audit knows', async () => {
      const node = await connect()
      await pairNode(gateway, admin, 'other', SCOPES)
      const foreign = await send(gateway, admin, 'other', { command: 'system.info' })
      for (const result of [null, 'text', 7, [], {}, { commandId: 'x' }, { commandId: 7, ok: true }, { commandId: 'x', ok: 'yes' }])
        node.invoke('CommandResult', result)
      node.invoke('CommandResult', { commandId: foreign, ok: true, result: {}, durationMs: 1 })
      node.invoke('CommandResult', { commandId: 'no such', ok: true, result: {}, durationMs: 1 })
      node.invoke('NoSuchMethod', {})
      node.invoke('ScopeChanged', 'text')
      await waitFor('the audit', async () => {
        const why = (await audited()).filter(({ outcome }) => outcome === 'refused').map(({ details }) => details.why)
        return why.filter(reason => reason === 'malformed').length === 8 && why.filter(reason => reason === 'foreign').length === 2
      })
      answering(node)
      assert.equal((await wait(gateway, admin, await enqueue())).status, 'succeeded')
      assert.equal((await wait(gateway, admin, foreign, 0)).status, 'queued')
    })

    it('is cut when it sends too much that nobody asked for, or too much at once', async () => {
      await restart({ settings: { 'Service:Nodes:MaxMessagesPerMinute': '50', 'Service:Nodes:MaxMessageBytes': '100000' } })
      const chatty = await connect()
      for (let i = 0; i < 60; i++) chatty.invoke('Heartbeat', { nodeId: 'robot' })
      await waitFor('the cut', () => !chatty.isOpen())
      const oversized = await connect()
      oversized.invoke('CommandResult', { commandId: 'x', ok: true, result: { x: 'x'.repeat(200_000) } })
      await waitFor('the cut', () => !oversized.isOpen())
      const solicited = answering(await connect())
      await Promise.all(Array.from({ length: 80 }, async () => wait(gateway, admin, await enqueue())))
      assert.ok(solicited.isOpen(), 'results count for nothing')
    })

    it('comes back by itself after the gateway was stopped, and gets what it had not done', async () => {
      const port = new URL(gateway.url).port
      const node = await connect({ reconnects: true })
      const commandId = await enqueue({ command: 'system.info', timeoutMs: 60_000 })
      await waitFor('the command', () => node.commands.length === 1)
      node.onCommand = command => node.invoke('CommandResult', { commandId: command.commandId, ok: true, durationMs: 1 })
      await restart({ settings: { 'Service:Port': port } })
      assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
      assert.deepEqual(
        node.commands.map(command => command.commandId),
        [commandId, commandId],
      )
    })
  })
