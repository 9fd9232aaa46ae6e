import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { RedisCluster } from '../../../core/cluster/redisCluster.js'
import { createLog } from '../../../core/log.js'
import { pollNode, Sight } from '../../../plugins/nodes/between.js'
import { Presence } from '../../../plugins/nodes/presence.js'
import { Reach } from '../../../plugins/nodes/reach.js'
import { hasRedis, startRedis, type TestRedis } from '../../support/redis.js'
import { waitFor } from '../../support/waitFor.js'

if (!hasRedis) describe('the way to a node at another gateway', () => it('is known (skipped: there is no redis-server)'))
else
  describe('the way to a node at another gateway', () => {
    const installation = { name: 'ins_test', key: randomBytes(32) }
    let redis: TestRedis
    let here: RedisCluster
    let there: RedisCluster

    const join = async (): Promise<RedisCluster> => {
      const cluster = new RedisCluster({ uri: redis.uri, installation, leaseMs: 10_000, log: createLog({ level: 'silent' }) })
      await cluster.start()
      return cluster
    }

    before(async () => {
      redis = await startRedis()
      ;[here, there] = [await join(), await join()]
    })
    after(async () => {
      await Promise.all([here.close(), there.close()])
      await redis.close()
    })

    it('is not sure what a polling node works on while the gateway that gave it is silent', async () => {
      const presence = new Presence({ offlineAfterMs: () => 90_000, onChange: () => undefined })
      const reach = new Reach({ cluster: here, presence, drain: () => undefined })
      assert.deepEqual(await reach.poll('nobody', [], false), { commands: undefined, isSure: true })
      const describe = (): Sight => ({ transport: 'polling', seenAt: new Date().toISOString() })
      there.owners({ kind: 'nodes', info: Sight, describe, onLost: () => undefined }).claim('robot', false)
      const silence = there.answer(pollNode, () => new Promise(() => undefined))
      await waitFor('the node', async () => (await reach.sights(['robot'])).size === 1)
      assert.deepEqual(await reach.poll('robot', [], false), { commands: undefined, isSure: false })
      silence()
      there.answer(pollNode, () => Promise.resolve({ commands: [] }))
      assert.deepEqual(await reach.poll('robot', [], false), { commands: [], isSure: true })
    })

    it('is not sure either while Redis answers nothing', async () => {
      const presence = new Presence({ offlineAfterMs: () => 90_000, onChange: () => undefined })
      const reach = new Reach({ cluster: here, presence, drain: () => undefined })
      redis.signal('SIGSTOP')
      const startedAt = performance.now()
      assert.deepEqual(await reach.poll('another', [], false), { commands: undefined, isSure: false })
      assert.equal(await reach.take({ tenant: null, userId: 'u' }, 'another', 'c', { command: 'system.info' }, 100), undefined)
      assert.ok(performance.now() - startedAt < 5_000)
      redis.signal('SIGCONT')
      await waitFor('Redis to be back', () => here.state().isReachable)
      assert.deepEqual(await reach.poll('another', [], false), { commands: undefined, isSure: true })
    })
  })
