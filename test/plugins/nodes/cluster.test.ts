import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { MongoClient } from 'mongodb'
import { nodes } from '../../../plugins/nodes/contract.js'
import { lackingForCluster } from '../../support/cluster.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { startRedis, type TestRedis } from '../../support/redis.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, SECRET, type TestNode } from './support.js'

if (lackingForCluster !== undefined)
  describe('a direct call to a node at another gateway', () => it(`is answered (skipped: ${lackingForCluster})`))
else
  describe('a direct call to a node at another gateway', () => {
    const database = `agent-gateway-test-${randomBytes(4).toString('hex')}`
    const password = `redis-${randomBytes(6).toString('hex')}`
    const mongoUri = new URL(`/${database}`, process.env.MONGODB_URI).href
    let redis: TestRedis
    let here: TestGateway
    let there: TestGateway
    let admin: string
    let owner: { tenant: null; userId: string }
    let node: TestNode

    const start = (redisUri: string, settings: Record<string, string> = {}) =>
      startGateway({
        settings: { 'Service:Store:MongoUri': mongoUri, 'Service:Vault:Key': Buffer.alloc(32, 7).toString('base64'), ...settings },
        env: { Service__Cluster__RedisUri: redisUri },
      })
    before(async () => {
      redis = await startRedis({ password })
      here = await start(redis.uri)
      there = await start(redis.uri)
      admin = await login(here)
      owner = { tenant: null, userId: (await here.call('GET', '/auth/me', { token: admin })).body.id }
      const token = await pairNode(here, admin, 'robot', ['system.info', 'input.control'])
      node = await connectNode('signalr', there, token)
      await waitFor('the node', async () => (await here.service(nodes).list(owner))[0]?.status === 'online')
    })
    after(async () => {
      await node.close()
      await Promise.all([here.stop(), there.stop()])
      await redis.close()
      const client = await MongoClient.connect(mongoUri)
      await client.db(database).dropDatabase()
      await client.close()
    })

    const call = (command: string, params = {}, timeoutMs = 10_000) =>
      here.service(nodes).call(owner, 'robot', { command, params, timeoutMs })

    it('is answered, also when its result is large, and is kept nowhere', async () => {
      answering(node)
      const results = await Promise.all(Array.from({ length: 100 }, (_, i) => call('system.info', { i })))
      assert.deepEqual(
        results.map(({ result }) => result?.i),
        Array.from({ length: 100 }, (_, i) => i),
      )
      const data = 'é'.repeat(500_000)
      assert.deepEqual((await call('system.info', { data })).result, { data })
      assert.deepEqual((await here.call('GET', '/nodes/robot/commands', { token: admin })).body.items, [])
    })

    it('is answered as soon as the node is there, by a gateway that has just looked for it in vain', async () => {
      const token = await pairNode(here, admin, 'late', ['system.info'])
      const callLate = () => here.service(nodes).call(owner, 'late', { command: 'system.info' })
      await assert.rejects(callLate(), { code: 'service_unavailable' })
      const late = answering(await connectNode('socket.io', there, token))
      await waitFor('the node', async () => (await here.service(nodes).list(owner)).every(({ status }) => status === 'online'))
      assert.equal((await callLate()).status, 'succeeded')
      await late.close()
    })

    it('passes the same gates', async () => {
      await assert.rejects(call('system.reboot'), { code: 'not_authorized' })
      await assert.rejects(here.service(nodes).call(owner, 'robot', { command: 'input.move', agentId: 'agt_1' }), {
        code: 'not_authorized',
      })
      const other = here.service(nodes).call({ tenant: null, userId: 'other' }, 'robot', { command: 'system.info' })
      await assert.rejects(other, { code: 'not_found' })
      await assert.rejects(here.service(nodes).call(owner, 'nobody', { command: 'system.info' }), { code: 'service_unavailable' })
    })

    it('ends with the error of the node, or with its time', async () => {
      node.onCommand = ({ commandId }) => {
        node.invoke('CommandResult', { commandId, ok: false, error: { code: 'busy', message: 'no', retryAfterMs: 5 }, durationMs: 1 })
      }
      const { status, error } = await call('system.info')
      assert.deepEqual([status, error?.code], ['failed', 'busy'])
      node.onCommand = () => undefined
      assert.equal((await call('system.info', {}, 50)).status, 'timed_out')
    })

    it('outlasts a Redis that is started anew, and runs once', async () => {
      node.commands.length = 0
      answering(node)
      let isOver = false
      const statuses: string[] = []
      const calling = Promise.all(
        Array.from({ length: 8 }, async () => {
          while (!isOver) statuses.push((await call('system.info')).status)
        }),
      )
      await waitFor('some', () => statuses.length > 50)
      await redis.kill()
      await redis.start()
      const before = statuses.length
      await waitFor('some more', () => statuses.length > before + 50)
      isOver = true
      await calling
      assert.deepEqual(new Set(statuses), new Set(['succeeded']))
      assert.equal(node.commands.length, statuses.length)
    })

    it('is not needed for limits: guesses of a pairing secret count over all gateways', async () => {
      await here.call('POST', '/nodes/pairing/request', { body: { nodeId: 'guessed', pairingSecret: SECRET } })
      const statuses: number[] = []
      for (let i = 0; i < 12; i++) {
        const body = { nodeId: 'guessed', pairingSecret: `a wrong secret ${String(i)}` }
        statuses.push((await (i % 2 === 0 ? here : there).call('POST', '/nodes/me/pair', { body })).status)
      }
      assert.deepEqual(statuses, [...Array.from({ length: 10 }, () => 401), 429, 429])
    })

    it('is not needed to know: the password of Redis is in no log and no answer', async () => {
      const health = await here.call('GET', '/ops/health', { token: admin })
      assert.equal(health.body.status, 'ok')
      const wrong = await start(redis.uri.replace(password, 'another-wrong-password'))
      const state = await wrong.call('GET', '/ops/health', { token: admin })
      assert.equal(state.body.status, 'degraded')
      await wrong.stop()
      assert.match(wrong.logged(), /Redis is away \(.*password.*\)/)
      for (const text of [here.logged(), there.logged(), wrong.logged(), health.text, state.text])
        assert.ok(!text.includes(password) && !text.includes('another-wrong-password'))
    })

    it('is not to be had from a configuration that cannot work, which is named at the start', async () => {
      await assert.rejects(
        start('not an address: secret-in-it'),
        (error: Error) => /RedisUri/.test(error.message) && !/secret-in-it/.test(error.message),
      )
      await assert.rejects(startGateway({ env: { Service__Cluster__RedisUri: redis.uri } }), /MongoUri/)
    })
  })
