import assert from 'node:assert/strict'
import { answering, connectNode, pairNode, send, wait, type Protocol, type TestNode } from '../plugins/nodes/support.js'
import { allKnown, lackingForCluster, startCluster, type TestCluster } from '../support/cluster.js'
import { ADMIN } from '../support/gateway.js'
import type { GatewayProcess } from '../support/gatewayProcess.js'
import { waitFor } from '../support/waitFor.js'

if (lackingForCluster !== undefined) describe('three gateways', () => it(`serve each other's nodes (skipped: ${lackingForCluster})`))
else
  describe('three gateways', () => {
    let cluster: TestCluster
    let nodes: TestNode[]
    let count = 0

    before(async () => {
      cluster = await startCluster(3)
    })
    after(() => cluster.close())
    beforeEach(() => (nodes = []))
    afterEach(async () => {
      await Promise.all(nodes.map(node => node.close()))
    })

    const at = (index: number): GatewayProcess => cluster.gateways[index]!
    const get = async (index: number, path: string) => (await at(index).call('GET', path, { token: cluster.admin })).body
    const pair = async (...scopes: string[]): Promise<{ id: string; token: string }> => {
      const id = `robot-${String((count += 1))}`
      return { id, token: await pairNode(at(0), cluster.admin, id, ['system.info', ...scopes]) }
    }
    const connect = async (index: number, token: string, protocol: Protocol = 'socket.io'): Promise<TestNode> => {
      const node = await connectNode(protocol, at(index), token)
      nodes.push(node)
      return node
    }
    const seen = async (id: string): Promise<unknown[]> =>
      Promise.all([0, 1, 2].map(async index => (({ status, transport }) => [status, transport])(await get(index, `/nodes/${id}`))))
    const seenAs = (id: string, status: string, transport?: string) =>
      waitFor(`${id} to be ${status} everywhere`, async () => {
        const views = await seen(id)
        return views.every(view => JSON.stringify(view) === JSON.stringify([status, ...(transport === undefined ? [null] : [transport])]))
      })
    const sendTo = (index: number, id: string, body: Record<string, unknown> = {}): Promise<string> =>
      send(at(index), cluster.admin, id, { command: 'system.info', timeoutMs: 60_000, ...body })
    const outcome = (index: number, commandId: string) => wait(at(index), cluster.admin, commandId, 30_000)
    const online = async (): Promise<number> => ((await get(0, '/ops/health')).cluster as { gateways: number }).gateways

    for (const protocol of ['socket.io', 'signalr'] satisfies Protocol[]) {
      it(`bring commands to a node at another one over ${protocol}, and the results to whoever waits anywhere`, async () => {
        const { id, token } = await pair()
        answering(await connect(1, token, protocol))
        await seenAs(id, 'online', protocol)
        const ids = await Promise.all(Array.from({ length: 30 }, (_, i) => sendTo(i % 3, id, { params: { i } })))
        const outcomes = await Promise.all(ids.map((commandId, i) => outcome((i + 1) % 3, commandId)))
        assert.deepEqual(
          outcomes.map(({ status, result }) => [status, result.i]),
          ids.map((_, i) => ['succeeded', i]),
        )
        const large = { data: 'x'.repeat(600_000) }
        assert.deepEqual((await outcome(2, await sendTo(0, id, { params: large }))).result, large)
      })

      it(`replace the connection of a node over ${protocol} that connects to another one`, async () => {
        const { id, token } = await pair()
        const first = await connect(1, token, protocol)
        const held = await sendTo(0, id)
        await waitFor('the command', () => first.commands.length === 1)
        const second = answering(await connect(2, token, protocol))
        await waitFor('the first connection to end', () => !first.isOpen())
        assert.equal((await outcome(0, held)).status, 'succeeded')
        assert.equal((await outcome(1, await sendTo(1, id))).status, 'succeeded')
        assert.equal(second.commands.length, 2)
        await seenAs(id, 'online', protocol)
        await second.close()
        await seenAs(id, 'offline')
      })
    }

    it('show the same of a node: its heartbeat, its version, its list', async () => {
      const { id, token } = await pair()
      const node = await connect(1, token)
      node.invoke('Heartbeat', { nodeId: id, status: 'ok', uptime: 5, cpuPercent: 12, platform: 'linux', version: '9.1' })
      for (const index of [0, 1, 2])
        await waitFor('the heartbeat', async () => {
          const { version, cpuPercent, protocolVersion } = await get(index, `/nodes/${id}`)
          return version === '9.1' && cpuPercent === 12 && protocolVersion === '2026-04-01'
        })
      const lists = await Promise.all([0, 1, 2].map(index => get(index, '/nodes?limit=200')))
      const listed = lists.map(({ items }) => (items as { id: string; status: string }[]).filter(item => item.id === id))
      assert.deepEqual(
        listed.map(items => items.map(({ status }) => status)),
        [['online'], ['online'], ['online']],
      )
    })

    it('act at once on what is decided at another one: cancel, scopes, rotation, revocation', async () => {
      const { id, token } = await pair('screen.capture')
      const node = await connect(1, token)
      const cancelled = await sendTo(0, id)
      await waitFor('the command', () => node.commands.length === 1)
      const waiting = outcome(2, cancelled)
      await at(0).call('POST', `/nodes/commands/${cancelled}/cancel`, { token: cluster.admin })
      assert.equal((await waiting).status, 'cancelled')
      await at(2).call('PUT', `/nodes/${id}/permissions`, { token: cluster.admin, body: { scopes: ['system.info'] } })
      await waitFor('the scopes', () => node.heard.some(({ method }) => method === 'RefreshScopes'))
      const refused = await at(1).call('POST', `/nodes/${id}/commands`, { token: cluster.admin, body: { command: 'screen.capture' } })
      assert.equal(refused.status, 403)
      const rotated = await at(0).call('POST', `/nodes/${id}/rotate-token`, { token: cluster.admin })
      const renewed = await connect(2, rotated.body.token as string)
      await waitFor('the old connection to end', () => !node.isOpen())
      await assert.rejects(connect(0, token))
      const running = await sendTo(1, id)
      await waitFor('the command', () => renewed.commands.length === 1)
      await at(0).call('POST', `/nodes/${id}/revoke`, { token: cluster.admin })
      await waitFor('the revocation', () => !renewed.isOpen())
      assert.deepEqual(renewed.heard.at(-1), { method: 'RevokeAccess', argument: { reason: 'admin_revoked' } })
      assert.equal((await outcome(2, running)).status, 'failed')
      await seenAs(id, 'offline')
    })

    it('take results at any of them, over HTTP too, and release approved commands to where the node is', async () => {
      const { id, token } = await pair('input.control')
      const node = await connect(1, token)
      const commandId = await sendTo(0, id)
      const waiting = outcome(0, commandId)
      await waitFor('the command', () => node.commands.length === 1)
      const posted = await at(2).call('POST', `/nodes/me/commands/${commandId}/result`, {
        token,
        body: { ok: true, result: { by: 'http' } },
      })
      assert.equal(posted.status, 200)
      assert.deepEqual((await waiting).result, { by: 'http' })
      answering(node)
      const critical = await at(0).call('POST', `/nodes/${id}/commands`, { token: cluster.admin, body: { command: 'input.move' } })
      assert.equal(critical.status, 202)
      assert.equal((await outcome(2, critical.body.commandId as string)).status, 'succeeded')
    })

    it('give a node that polls at each of them in turn every command once', async () => {
      const { id, token } = await pair()
      await at(0).call('POST', '/nodes/me/heartbeat', { token, body: { nodeId: id } })
      await seenAs(id, 'online', 'polling')
      const ids = await Promise.all(Array.from({ length: 12 }, (_, i) => sendTo(i % 3, id)))
      const given: string[] = []
      for (let i = 0; i < 9; i++) {
        const { commands } = (await at(i % 3).call('GET', '/nodes/me/commands', { token })).body as { commands: { commandId: string }[] }
        given.push(...commands.map(({ commandId }) => commandId))
      }
      assert.deepEqual(given.toSorted(), ids.toSorted())
      await Promise.all(
        given.map((commandId, i) => at(i % 3).call('POST', `/nodes/me/commands/${commandId}/result`, { token, body: { ok: true } })),
      )
      assert.deepEqual(
        new Set(await Promise.all(ids.map(async (one, i) => (await outcome(i % 3, one)).status as string))),
        new Set(['succeeded']),
      )
    })

    it('refuse at once what was logged out at another one', async () => {
      const token = (await at(0).call('POST', '/auth/login', { body: ADMIN })).body.token as string
      assert.equal((await at(1).call('GET', '/auth/me', { token })).status, 200)
      await at(0).call('POST', '/auth/logout', { token })
      assert.equal((await at(1).call('GET', '/auth/me', { token })).status, 401)
    })

    it('lose no command of one that is killed, and show its nodes where they come back', async () => {
      const { id, token } = await pair()
      const gone = await pair()
      const first = await connect(1, token)
      await connect(1, gone.token)
      await seenAs(gone.id, 'online', 'socket.io')
      const ids = await Promise.all(Array.from({ length: 20 }, (_, i) => sendTo(i % 3, id)))
      await waitFor('the commands', () => first.commands.length === ids.length)
      for (const { commandId } of first.commands.slice(0, 5)) first.invoke('CommandResult', { commandId, ok: true, durationMs: 1 })
      at(1).kill('SIGKILL')
      await at(1).exited
      // While it is gone and not missed yet, and after that.
      for (const index of [0, 2, 0, 2]) ids.push(await sendTo(index, id))
      const short = await sendTo(0, gone.id, { timeoutMs: 500 })
      const second = answering(await connect(2, token))
      const statuses = await Promise.all(ids.map(async one => (await outcome(0, one)).status as string))
      assert.deepEqual(new Set(statuses), new Set(['succeeded']))
      const runs = second.commands.map(({ commandId }) => commandId)
      assert.equal(new Set(runs).size, runs.length, 'none was sent twice over one connection')
      await waitFor('the nodes of the dead one to be offline', async () => (await get(0, `/nodes/${gone.id}`)).status === 'offline')
      await waitFor('the dead one to be missed', async () => (await online()) === 2)
      assert.equal((await get(0, `/nodes/commands/${short}/wait?timeoutMs=0`)).status, 'queued')
      await cluster.start(1)
      await allKnown(cluster)
      answering(await connect(1, gone.token))
      assert.equal((await outcome(2, short)).status, 'succeeded')
      assert.equal((await outcome(1, await sendTo(1, id))).status, 'succeeded')
    })

    it('end in time what was dispatched by one that is killed', async () => {
      const { id, token } = await pair()
      const node = await connect(1, token)
      const commandId = await sendTo(0, id, { timeoutMs: 3_000 })
      await waitFor('the command', () => node.commands.length === 1)
      at(1).kill('SIGKILL')
      await at(1).exited
      assert.equal((await outcome(2, commandId)).status, 'timed_out')
      await cluster.start(1)
      await allKnown(cluster)
    })

    it('go on while one that has nothing to do with it is frozen, and with it when it wakes', async () => {
      const { id, token } = await pair()
      const idle = await pair()
      answering(await connect(1, token))
      const frozen = answering(await connect(2, idle.token))
      await seenAs(idle.id, 'online', 'socket.io')
      at(2).kill('SIGSTOP')
      const ids = await Promise.all(Array.from({ length: 20 }, (_, i) => sendTo(i % 2, id)))
      const statuses = await Promise.all(ids.map(async (one, i) => (await outcome((i + 1) % 2, one)).status as string))
      assert.deepEqual(new Set(statuses), new Set(['succeeded']))
      const late = await sendTo(0, idle.id)
      await waitFor('the frozen one to be missed', async () => (await online()) === 2)
      assert.equal((await get(0, `/nodes/${idle.id}`)).status, 'offline')
      at(2).kill('SIGCONT')
      await allKnown(cluster)
      // Either connection: the client may have given up the one to the frozen gateway.
      if (!frozen.isOpen()) answering(await connect(2, idle.token))
      assert.equal((await outcome(1, late)).status, 'succeeded')
      await seenAs(idle.id, 'online', 'socket.io')
    })

    it('go on with their own nodes while Redis is away, find in the store what waits for them, and recover', async () => {
      const { id, token } = await pair()
      answering(await connect(1, token))
      await seenAs(id, 'online', 'socket.io')
      const before = cluster.gateways.map(gateway => gateway.stderr().length)
      await cluster.redis.kill()
      const degraded = await waitFor('Redis to be missed', async () => {
        const health = await get(0, '/ops/health')
        return health.status === 'degraded' ? health : undefined
      })
      assert.equal(typeof degraded.cluster.since, 'string')
      const ids = [await sendTo(1, id), await sendTo(0, id), await sendTo(2, id)]
      for (const [index, one] of ids.entries()) assert.equal((await outcome(index, one)).status, 'succeeded')
      // Moves while nobody can tell.
      const moved = answering(await connect(2, token))
      await cluster.redis.start()
      await allKnown(cluster)
      await seenAs(id, 'online', 'socket.io')
      assert.equal((await outcome(0, await sendTo(0, id))).status, 'succeeded')
      await waitFor('the node to be where it connected last', () => moved.commands.length > 0)
      for (const [index, gateway] of cluster.gateways.entries()) {
        const said = gateway.stderr().slice(before[index])
        assert.equal(said.match(/Redis is away/g)?.length, 1)
        assert.equal(said.match(/Redis is back/g)?.length, 1)
        assert.ok(!gateway.stderr().includes('secret of the cluster') && !gateway.stderr().includes('secret%20of'))
      }
    })

    it('fail no command while Redis is started anew', async () => {
      const { id, token } = await pair()
      answering(await connect(1, token))
      await seenAs(id, 'online', 'socket.io')
      let isOver = false
      const statuses: string[] = []
      const sending = Promise.all(
        [0, 2].map(async index => {
          while (!isOver) statuses.push((await outcome(index, await sendTo(index, id))).status as string)
        }),
      )
      await waitFor('some', () => statuses.length > 10)
      await cluster.redis.kill()
      await cluster.redis.start()
      await allKnown(cluster)
      const before = statuses.length
      await waitFor('some more', () => statuses.length > before + 10)
      isOver = true
      await sending
      assert.deepEqual(new Set(statuses), new Set(['succeeded']))
    })
  })
