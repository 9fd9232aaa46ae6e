import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createClient } from 'redis'
import { z } from 'zod'
import type { Unreachable } from '../../../core/cluster/cluster.js'
import { notice, request, type Owners } from '../../../core/cluster/cluster.js'
import { RedisCluster } from '../../../core/cluster/redisCluster.js'
import { conflict } from '../../../core/errors.js'
import { createLog } from '../../../core/log.js'
import { hasRedis, startRedis, type TestRedis } from '../../support/redis.js'
import { waitFor } from '../../support/waitFor.js'

const echo = request('test.echo', z.object({ text: z.string() }), z.object({ text: z.string(), by: z.string() }))
const said = notice('test.said', z.object({ text: z.string() }))

if (!hasRedis) describe('gateways on one Redis', () => it('hear of each other (skipped: there is no redis-server)'))
else
  describe('gateways on one Redis', () => {
    const installation = { name: 'ins_test', key: randomBytes(32) }
    let logged: string[]
    const log = createLog({ level: 'info', write: line => logged.push(line) })
    let redis: TestRedis
    let clusters: RedisCluster[]

    const join = async (key = installation.key): Promise<RedisCluster> => {
      const cluster = new RedisCluster({ uri: redis.uri, installation: { ...installation, key }, leaseMs: 4000, log })
      await cluster.start()
      clusters.push(cluster)
      return cluster
    }
    const echoing = (cluster: RedisCluster) => cluster.answer(echo, ({ text }) => Promise.resolve({ text, by: cluster.id }))

    /** What one gateway holds, and what it lost. */
    const holding = (cluster: RedisCluster): Owners<{ at: string }> & { lost: string[] } => {
      const lost: string[] = []
      const describe = () => ({ at: cluster.id })
      const owners = cluster.owners({ kind: 'things', info: z.object({ at: z.string() }), describe, onLost: id => lost.push(id) })
      return Object.assign(owners, { lost })
    }
    const heldBy = (owners: Owners<unknown>, id: string, gateway: string | undefined) =>
      waitFor(`${id} to be held by ${String(gateway)}`, async () => {
        owners.forget(id)
        return (await owners.elsewhere(id)) === gateway
      })

    /** Looks in every turn: the connection is back soon. */
    const untilMissed = async (cluster: RedisCluster): Promise<void> => {
      const until = performance.now() + 10_000
      while (cluster.state().isReachable && performance.now() < until) await new Promise(resolve => setImmediate(resolve))
      assert.equal(cluster.state().isReachable, false, 'Redis is missed')
    }

    beforeEach(async () => {
      redis = await startRedis()
      clusters = []
      logged = []
    })
    afterEach(async () => {
      await Promise.all(clusters.map(cluster => cluster.close()))
      await redis.close()
    })

    it('answer each other, with results and with errors', async () => {
      const [a, b] = [await join(), await join()]
      echoing(b)
      assert.deepEqual(await a.ask(b.id, echo, { text: 'hello' }, { timeoutMs: 5000 }), { text: 'hello', by: b.id })
      b.answer(echo, () => Promise.reject(conflict('not now', { why: 'test' })))
      await assert.rejects(a.ask(b.id, echo, { text: 'hello' }, { timeoutMs: 5000 }), { code: 'conflict', details: { why: 'test' } })
      assert.equal(a.state().gateways + b.state().gateways >= 3, true)
    })

    it('say so when another is gone, does not answer in time, or breaks the rules', async () => {
      const [a, b] = [await join(), await join()]
      b.answer(echo, () => new Promise(() => undefined))
      await assert.rejects(a.ask(b.id, echo, { text: '' }, { timeoutMs: 50 }), (error: Unreachable) => error.maybeDone)
      b.answer(echo, () => Promise.resolve({ text: 1 } as never))
      await assert.rejects(a.ask(b.id, echo, { text: '' }, { timeoutMs: 5000 }), (error: Unreachable) => error.maybeDone)
      // As a gateway of another version may ask.
      await assert.rejects(a.ask(b.id, echo, { text: 1 } as never, { timeoutMs: 5000 }), (error: Unreachable) => !error.maybeDone)
      assert.equal(b.state().ignored, 1)
      await assert.rejects(a.ask('gtw_gone', echo, { text: '' }, { timeoutMs: 5000 }), (error: Unreachable) => !error.maybeDone)
    })

    it('tell one, all others, and whoever follows a topic', async () => {
      const [a, b, c] = [await join(), await join(), await join()]
      const heard: string[] = []
      for (const [name, cluster] of Object.entries({ a, b, c })) cluster.hear(said, ({ text }) => heard.push(name + text))
      const stop = await c.follow(said, 'x', ({ text }) => heard.push(`topic${text}`))
      a.tell(said, { text: '1' })
      a.tell(said, { text: '2' }, b.id)
      a.publish(said, 'x', { text: '3' })
      a.publish(said, 'y', { text: '4' })
      await waitFor('what was told', () => heard.length === 4)
      assert.deepEqual(heard.sort(), ['b1', 'b2', 'c1', 'topic3'])
      stop()
      a.publish(said, 'x', { text: '5' })
      a.tell(said, { text: '6' }, c.id)
      await waitFor('the last', () => heard.includes('c6'))
      assert.equal(heard.length, 5)
    })

    it('ignore and count what is not proven, is repeated, moved, too deep or makes no sense', async () => {
      const [a, b] = [await join(), await join()]
      const stranger = await join(randomBytes(32))
      const heard: string[] = []
      b.hear(said, ({ text }) => heard.push(text))
      const raw = await createClient({ url: redis.uri }).connect()
      const listener = raw.duplicate()
      await listener.connect()
      const seen: { channel: string; text: string }[] = []
      await listener.pSubscribe('*', (text, channel) => seen.push({ text, channel }))
      const [channels] = [await raw.pubSubChannels()]
      const toB = channels.find(channel => channel.includes(b.id)) ?? ''
      stranger.tell(said, { text: 'forged' }, b.id)
      await waitFor('the forged one to be counted', () => b.state().ignored === 1)
      a.tell(said, { text: 'real' }, b.id)
      await waitFor('the real one', () => heard.length === 1)
      const real = await waitFor(
        'it to be overheard',
        () => seen.find(({ channel, text }) => channel === toB && text.includes('real'))?.text,
      )
      await raw.publish(toB, real)
      await raw.publish(toB, '{}')
      await raw.publish(toB, `${'x'.repeat(43)}${'['.repeat(100_000)}`)
      await raw.publish(channels.find(channel => channel.endsWith(':all')) ?? '', real)
      await waitFor('all to be counted', () => b.state().ignored === 5)
      assert.deepEqual(heard, ['real'])
      assert.ok(!JSON.stringify(seen).includes(installation.key.toString('base64')))
      raw.destroy()
      listener.destroy()
    })

    it('hold each thing once: the later claim wins, and a modest one gives way', async () => {
      const [a, b] = [await join(), await join()]
      const [ofA, ofB] = [holding(a), holding(b)]
      ofA.claim('x', true)
      await heldBy(ofB, 'x', a.id)
      ofB.claim('x', false)
      await waitFor('the modest one to give way', () => ofB.lost.length === 1)
      ofB.claim('x', true)
      await waitFor('the earlier one to lose', () => ofA.lost.length === 1)
      await heldBy(ofA, 'x', b.id)
      assert.deepEqual(await ofA.entries(['x', 'y']), new Map([['x', { gateway: b.id, info: { at: b.id } }]]))
      ofA.release('x')
      ofB.release('x')
      await heldBy(ofA, 'x', undefined)
    })

    it('are found at once by who has just looked in vain', async () => {
      const [a, b, c] = [await join(), await join(), await join()]
      const [ofA, ofB, ofC] = [holding(a), holding(b), holding(c)]
      assert.equal(await ofA.elsewhere('x'), undefined)
      ofB.claim('x', true)
      await heldBy(ofC, 'x', b.id)
      assert.equal(await ofA.elsewhere('x'), b.id)
    })

    it('are asked once for what is somewhere, and each time for what is nowhere', async () => {
      const [a, b] = [await join(), await join()]
      const [ofA, ofB] = [holding(a), holding(b)]
      ofB.claim('x', true)
      await heldBy(ofA, 'x', b.id)
      const raw = await createClient({ url: redis.uri }).connect()
      const looked = async () => Number(/cmdstat_hmget:calls=(\d+)/.exec(await raw.info('commandstats'))?.[1] ?? 0)
      const before = await looked()
      for (let i = 0; i < 50; i++) assert.equal(await ofA.elsewhere('x'), b.id)
      assert.equal(await looked(), before)
      for (let i = 0; i < 5; i++) assert.equal(await ofA.elsewhere('y'), undefined)
      assert.equal(await looked(), before + 5)
      raw.destroy()
    })

    it('tell their log when Redis begins to refuse, and when it no longer does', async function () {
      this.timeout(30_000)
      const a = await join()
      const ofA = holding(a)
      const raw = await createClient({ url: redis.uri }).connect()
      const refused = async () => Number(/errorstat_OOM:count=(\d+)/.exec(await raw.info('errorstats'))?.[1] ?? 0)
      const said = (text: RegExp) => logged.filter(line => text.test(line)).length
      for (let times = 1; times <= 2; times++) {
        await raw.configSet('maxmemory', '1')
        ofA.claim(`x${String(times)}`, true)
        const before = await refused()
        await waitFor('several refusals', async () => (await refused()) >= before + 8, 20_000)
        assert.deepEqual([said(/refuses to renew the lease/), said(/refuses to take what this gateway holds/)], [times, times])
        await raw.configSet('maxmemory', '0')
        await waitFor('the end of it', () => said(/renews the lease .* again/) === times && said(/knows again what/) === times, 20_000)
      }
      assert.equal(said(/"level":"(error|warn)"/), 4)
      raw.destroy()
    })

    it('say again what Redis forgot, and what moved meanwhile has moved', async () => {
      const [a, b] = [await join(), await join()]
      const [ofA, ofB] = [holding(a), holding(b)]
      const ids = Array.from({ length: 600 }, (_, i) => `x${String(i)}`)
      for (const id of ids) ofA.claim(id, true)
      await waitFor('all to be held', async () => (await ofB.entries(ids)).size === ids.length)
      await redis.kill()
      // Moves while nobody can tell.
      ofB.claim('x0', true)
      ofA.claim('own', true)
      await waitFor('Redis to be missed', () => !a.state().isReachable && !b.state().isReachable)
      assert.equal(await ofB.elsewhere('own'), undefined)
      await redis.start()
      await waitFor('all to be held again', async () => (await ofB.entries([...ids, 'own'])).size === ids.length)
      await waitFor('the earlier one to lose', () => ofA.lost.length === 1)
      assert.deepEqual(ofA.lost, ['x0'])
      assert.deepEqual(ofB.lost, [])
    })

    it('say what they took and gave back in an absence that Redis remembers all through', async () => {
      const [a, b] = [await join(), await join()]
      const [ofA, ofB] = [holding(a), holding(b)]
      ofA.claim('given-back', true)
      ofA.claim('kept', true)
      await heldBy(ofB, 'kept', a.id)
      const raw = await createClient({ url: redis.uri }).connect()
      // On their way when the connections break.
      ofA.claim('taken', true)
      ofA.release('given-back')
      const missed = untilMissed(a)
      await raw.sendCommand(['CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes'])
      raw.destroy()
      await missed
      ofA.claim('taken-later', true)
      await waitFor('Redis to be back', () => a.state().isReachable && b.state().isReachable)
      for (const id of ['kept', 'taken', 'taken-later']) await heldBy(ofB, id, a.id)
      await heldBy(ofB, 'given-back', undefined)
    })

    it('answer after a short absence of Redis what was asked before and during it, each once', async () => {
      const [a, b] = [await join(), await join()]
      const asked: string[] = []
      let open = (): void => undefined
      const gate = new Promise<void>(resolve => (open = resolve))
      b.answer(echo, async ({ text }) => {
        asked.push(text)
        await gate
        return { text, by: b.id }
      })
      const before = a.ask(b.id, echo, { text: 'before' }, { timeoutMs: 20_000, patient: true })
      const hasty = a.ask(b.id, echo, { text: 'hasty' }, { timeoutMs: 20_000 })
      const refused = assert.rejects(hasty, (error: Unreachable) => error.maybeDone)
      await waitFor('the requests', () => asked.length === 2)
      await redis.kill()
      await refused
      await waitFor('Redis to be missed', () => !a.state().isReachable && !b.state().isReachable)
      const during = a.ask(b.id, echo, { text: 'during' }, { timeoutMs: 20_000, patient: true })
      await assert.rejects(a.ask(b.id, echo, { text: 'never' }, { timeoutMs: 20_000 }), (error: Unreachable) => !error.maybeDone)
      open()
      await redis.start()
      assert.deepEqual(
        (await Promise.all([before, during])).map(({ text }) => text),
        ['before', 'during'],
      )
      assert.deepEqual(asked, ['before', 'hasty', 'during'])
    })

    it('count calls together, each for itself while Redis is away', async () => {
      const [a, b] = [await join(), await join()]
      const [ofA, ofB] = [a, b].map(cluster => cluster.limiter({ keyPrefix: 'test', points: 3, duration: 60 }))
      await ofA!.consume('key')
      await ofB!.consume('key')
      await ofA!.consume('key')
      await assert.rejects(ofB!.consume('key'), { consumedPoints: 4 })
      await redis.kill()
      await waitFor('Redis to be missed', () => !b.state().isReachable)
      for (let i = 0; i < 3; i++) await ofB!.consume('key')
      await assert.rejects(ofB!.consume('key'), { consumedPoints: 4 })
    })

    it('wait no longer for a Redis that answers nothing than they may', async () => {
      const [a, b] = [await join(), await join()]
      const [ofA, ofB] = [holding(a), holding(b)]
      const limiter = a.limiter({ keyPrefix: 'test', points: 1, duration: 60 })
      ofB.claim('x', true)
      await heldBy(ofA, 'x', b.id)
      ofA.forget('x')
      redis.signal('SIGSTOP')
      const [found, counted] = await Promise.all([ofA.elsewhere('x', 50), limiter.get('other'), limiter.consume('key')])
      assert.deepEqual([found, counted], [undefined, null])
      await assert.rejects(limiter.consume('key'), { consumedPoints: 2 })
      assert.ok(a.state().isReachable, 'before Redis was missed')
      redis.signal('SIGCONT')
      await waitFor('what was looked for to be known after all', async () => (await ofA.elsewhere('x', 50)) === b.id)
    })

    it('take a Redis that answers nothing for one that is away', async () => {
      const a = await join()
      redis.signal('SIGSTOP')
      await waitFor('Redis to be missed', () => !a.state().isReachable, 20_000)
      redis.signal('SIGCONT')
      await waitFor('Redis to be back', () => a.state().isReachable)
    })
  })
