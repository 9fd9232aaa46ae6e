import assert from 'node:assert/strict'
import { answering, connectNode, pairNode, send, wait, type TestNode } from '../plugins/nodes/support.js'
import { allKnown, lackingForCluster, startCluster, type TestCluster } from '../support/cluster.js'
import { waitFor } from '../support/waitFor.js'

/** What the store and this machine may take beside the wait that was asked for. Waiting for Redis alone would take longer than both. */
const SLACK_MS = 3_000

if (lackingForCluster !== undefined) describe('gateways whose Redis hangs', () => it(`answer in time (skipped: ${lackingForCluster})`))
else
  describe('gateways whose Redis hangs', function () {
    let cluster: TestCluster
    let node: TestNode

    before(async () => {
      const limits = Object.fromEntries(['Read', 'Write'].map(name => [`Service:RateLimits:${name}`, '100000']))
      cluster = await startCluster(2, { settings: limits })
    })
    after(async () => {
      cluster.redis.signal('SIGCONT')
      await node.close()
      await cluster.close()
    })

    it('answer who would wait a second about then, and lose no command', async () => {
      const [here, there] = cluster.gateways
      const token = await pairNode(here!, cluster.admin, 'robot', ['system.info'])
      node = await connectNode('socket.io', there!, token)
      await waitFor('the node', async () => (await here!.call('GET', '/nodes/robot', { token: cluster.admin })).body.status === 'online')
      const open = await send(here!, cluster.admin, 'robot', { command: 'system.info' })
      await allKnown(cluster)

      cluster.redis.signal('SIGSTOP')
      const timed = async (answer: Promise<{ status: number; body: { commandId: string; status: string } }>) => {
        const startedAt = performance.now()
        const { status, body } = await answer
        return { status, body, tookMs: performance.now() - startedAt }
      }
      const answers = await Promise.all([
        timed(
          here!.call('POST', '/nodes/robot/commands', {
            token: cluster.admin,
            headers: { Prefer: 'wait=1' },
            body: { command: 'system.info' },
          }),
        ),
        timed(here!.call('GET', `/nodes/commands/${open}/wait?timeoutMs=1000`, { token: cluster.admin })),
      ])
      assert.deepEqual(
        answers.map(({ status, body }) => [status, body.status]),
        [
          [202, 'queued'],
          [200, 'dispatched'],
        ],
      )
      for (const { tookMs } of answers) assert.ok(tookMs < 1_000 + SLACK_MS, `answered after ${String(tookMs)} ms`)

      answering(node)
      // Over the store, while Redis hangs.
      for (const { body } of answers) assert.equal((await wait(here!, cluster.admin, body.commandId)).status, 'succeeded')
      cluster.redis.signal('SIGCONT')
      await allKnown(cluster)
      assert.equal(
        (await wait(here!, cluster.admin, await send(here!, cluster.admin, 'robot', { command: 'system.info' }))).status,
        'succeeded',
      )
    })
  })
