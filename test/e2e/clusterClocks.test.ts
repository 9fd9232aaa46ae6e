import assert from 'node:assert/strict'
import { answering, connectNode, pairNode, send, wait, type TestNode } from '../plugins/nodes/support.js'
import { lackingForCluster, startCluster, type TestCluster } from '../support/cluster.js'
import type { GatewayProcess } from '../support/gatewayProcess.js'

/** More than the times of the commands, their approvals and rotations here. */
const WRONG_MS = 90_000
const NAMES = ['right', 'fast', 'slow']

if (lackingForCluster !== undefined) describe('gateways with wrong clocks', () => it(`agree on times (skipped: ${lackingForCluster})`))
else
  describe('gateways with wrong clocks', function () {
    let cluster: TestCluster
    let nodes: TestNode[]
    let count = 0

    before(async () => {
      cluster = await startCluster(3, {
        clocksMs: [0, WRONG_MS, -WRONG_MS],
        settings: { 'Service:Nodes:QueueTtl': '45', 'Service:Nodes:CriticalFor': 'everyone' },
      })
    })
    after(() => cluster.close())
    beforeEach(() => (nodes = []))
    afterEach(async () => {
      await Promise.all(nodes.map(node => node.close()))
    })

    const at = (index: number): GatewayProcess => cluster.gateways[index]!
    const pair = async (): Promise<{ id: string; token: string }> => {
      const id = `robot-${String((count += 1))}`
      return { id, token: await pairNode(at(0), cluster.admin, id, ['system.info', 'input.control']) }
    }
    const connect = async (index: number, token: string): Promise<TestNode> => {
      const node = await connectNode('signalr', at(index), token)
      nodes.push(node)
      return node
    }

    for (const [index, name] of NAMES.entries())
      it(`end no command of the ${name} one early or late, and none that waits there`, async () => {
        const [held, away] = [await pair(), await pair()]
        const node = await connect(index, held.token)
        const long = await send(at(index), cluster.admin, held.id, { command: 'system.info', timeoutMs: 40_000 })
        const queued = await send(at(index), cluster.admin, away.id, { command: 'system.info' })
        const startedAt = performance.now()
        const short = await send(at((index + 1) % 3), cluster.admin, held.id, { command: 'system.info', timeoutMs: 5_000 })
        const outcome = await wait(at((index + 2) % 3), cluster.admin, short, 30_000)
        const tookMs = performance.now() - startedAt
        assert.equal(outcome.status, 'timed_out')
        // Each of them has looked for commands past their time more than once by now. Ended late, it would not be by now.
        assert.ok(tookMs > 4_900, `ended after ${String(tookMs)} ms`)
        answering(node)
        assert.equal((await wait(at((index + 1) % 3), cluster.admin, long)).status, 'succeeded')
        answering(await connect((index + 1) % 3, away.token))
        assert.equal((await wait(at((index + 2) % 3), cluster.admin, queued)).status, 'succeeded')
      })

    it('let each of them decide what was asked at any other', async () => {
      for (const asked of NAMES.keys())
        for (const decided of NAMES.keys()) {
          const { id, token } = await pair()
          answering(await connect(0, token))
          const commandId = await send(at(asked), cluster.admin, id, { command: 'input.move' })
          const listed = await at(decided).call('GET', '/approvals', { token: cluster.admin })
          assert.equal(listed.body.items.length, 1, `asked at the ${NAMES[asked]!} one, looked for at the ${NAMES[decided]!} one`)
          const approved = await at(decided).call('POST', `/approvals/apr_${commandId}/approve`, { token: cluster.admin })
          assert.equal(approved.status, 200, `asked at the ${NAMES[asked]!} one, decided at the ${NAMES[decided]!} one: ${approved.text}`)
          assert.equal((await wait(at(asked), cluster.admin, commandId)).status, 'succeeded')
        }
    })

    it('let in a rotated token at each of them until the new one is used', async () => {
      for (const index of NAMES.keys()) {
        const { id, token } = await pair()
        const rotated = await at(index).call('POST', `/nodes/${id}/rotate-token`, { token: cluster.admin })
        for (const other of NAMES.keys()) await connect(other, token)
        await connect(index, rotated.body.token as string)
        await assert.rejects(connect((index + 1) % 3, token))
      }
    })

    it('say in their logs how wrong they are', () => {
      const told = (index: number) => /"aheadMs":(-?\d+),"msg":"The clock of this gateway is wrong/.exec(at(index).stderr())?.[1]
      for (const [index, aheadMs] of [[1, WRONG_MS] as const, [2, -WRONG_MS] as const])
        assert.ok(Math.abs(Number(told(index)) - aheadMs) < 5_000, `told: ${String(told(index))}`)
      assert.equal(told(0), undefined)
    })
  })
