import assert from 'node:assert/strict'
import { z } from 'zod'
import { isToolAllowed, tools as toolsRef, type Tool, type ToolContext } from '../../../plugins/tools/contract.js'
import tools from '../../../plugins/tools/index.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'

const tool = (name: string): Tool => ({
  name,
  description: `Does ${name}`,
  parameters: z.object({ depth: z.int().default(1) }),
  execute: () => Promise.resolve(null),
})

describe('tools', () => {
  let gateway: TestGateway

  before(async () => {
    gateway = await startGateway({ plugins: [tools] })
  })
  after(() => gateway.stop())

  it('are listed for anyone, with JSON Schemas, in pages that stay true while tools come and go', async () => {
    const undo = ['a.one', 'b.two', 'c.three'].map(name => gateway.service(toolsRef).register(tool(name)))
    const first = await gateway.call('GET', '/tools?limit=2')
    assert.equal(first.status, 200)
    assert.deepEqual(
      first.body.items.map(({ name }: Tool) => name),
      ['a.one', 'b.two'],
    )
    assert.deepEqual(first.body.items[0].parameters.properties.depth.default, 1)
    assert.equal(first.body.items[0].parameters.required, undefined)
    undo[1]!()
    const second = await gateway.call('GET', `/tools?limit=2&cursor=${first.body.nextCursor}`)
    assert.deepEqual(
      second.body.items.map(({ name }: Tool) => name),
      ['c.three', 'time.now'],
    )
    assert.deepEqual([second.body.hasMore, second.body.nextCursor], [false, null])
    for (const cursor of ['x', Buffer.from('{"key":1}').toString('base64url')])
      assert.equal((await gateway.call('GET', `/tools?cursor=${cursor}`)).status, 400)
    assert.equal((await gateway.call('GET', '/tools?limit=0')).status, 400)
    undo[0]!()
    undo[2]!()
  })

  it('have unique, well-formed names', () => {
    const set = gateway.service(toolsRef)
    assert.throws(() => set.register(tool('time.now')), /Two tools are named "time\.now"/)
    for (const name of ['', 'a b', '.a', 'a.', 'x'.repeat(65)]) assert.throws(() => set.register(tool(name)), /is not a tool name/)
  })

  it('tell the time in any time zone', async () => {
    const now = gateway.service(toolsRef).get('time.now')!
    const context: ToolContext = {
      owner: { tenant: null, userId: 'u' },
      agentId: 'a',
      sessionId: 's',
      taskId: 't',
      signal: new AbortController().signal,
      resting: work => work(),
    }
    const before = Date.now()
    const { utc, local } = (await now.execute(now.parameters.parse({ timeZone: 'Asia/Tokyo' }), context)) as { utc: string; local: string }
    // To the second, at least.
    assert.ok(Date.parse(utc) > before - 1_000 && Date.parse(utc) <= Date.now())
    assert.match(local, /GMT\+9/)
    assert.throws(() => now.parameters.parse({ timeZone: 'Nowhere/Town' }), /IANA/)
  })

  it('are allowed by name, by family, or all', () => {
    assert.deepEqual(
      ['memory.search', 'memory.search.deep', 'memoryX.search', 'memory', 'time.now'].map(name =>
        isToolAllowed(['memory.*', 'time.now'], name),
      ),
      [true, true, false, false, true],
    )
    assert.equal(isToolAllowed(['*'], 'anything'), true)
    assert.equal(isToolAllowed([], 'anything'), false)
  })
})
