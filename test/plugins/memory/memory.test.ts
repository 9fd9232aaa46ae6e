import assert from 'node:assert/strict'
import { memory as memoryRef, type Memory } from '../../../plugins/memory/contract.js'
import memory from '../../../plugins/memory/index.js'
import tools from '../../../plugins/tools/index.js'
import { tools as toolsRef, type ToolContext } from '../../../plugins/tools/contract.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'
import { identityPlugins } from '../identity/identityPlugins.js'

describe('memory', () => {
  let gateway: TestGateway
  let service: Memory
  const alice = { tenant: null, userId: 'usr_alice' }
  const bob = { tenant: null, userId: 'usr_bob' }

  beforeEach(async () => {
    gateway = await startGateway({ plugins: [...identityPlugins, memory, tools] })
    service = gateway.service(memoryRef)
  })
  afterEach(() => gateway.stop())

  const texts = async (query: string, owner = alice, limit = 10): Promise<string[]> =>
    (await service.search(owner, query, limit)).map(({ text }) => text)

  it('finds what was remembered, best first, for its owner alone', async () => {
    await service.remember(alice, 'The cat is called Minka')
    await service.remember(alice, 'The cat sleeps on the cat tree')
    await service.remember(alice, 'Tuesdays are for swimming')
    await service.remember(bob, 'The cat is called Tom')
    await service.remember({ tenant: 'acme', userId: 'usr_alice' }, 'The cat of the company')
    assert.deepEqual(await texts('called Minka'), ['The cat is called Minka'])
    assert.equal((await texts('cat')).length, 2)
    assert.equal((await texts('cat', alice, 1)).length, 1)
    assert.deepEqual(await texts('cat', bob), ['The cat is called Tom'])
    assert.deepEqual(await texts('elephant'), [])
    assert.deepEqual(await texts('!?'), [])
    const [hit] = await service.search(alice, 'swimming', 5)
    assert.match(hit!.id, /^mem_/)
    assert.ok(hit!.score > 0 && Date.parse(hit!.createdAt) <= Date.now())
  })

  it('finds at once what is remembered after a search, also with slips and word beginnings', async () => {
    assert.deepEqual(await texts('umbrella'), [])
    await service.remember(alice, 'The umbrella stands in the hall')
    for (const query of ['umbrella', 'umbrela', 'umbr']) assert.equal((await texts(query)).length, 1, query)
  })

  it('keeps a text once for one idempotency key', async () => {
    const ids = await Promise.all(Array.from({ length: 5 }, () => service.remember(alice, 'once', { idempotencyKey: 'k' })))
    assert.equal(new Set(ids.map(({ id }) => id)).size, 1)
    assert.notEqual((await service.remember(bob, 'once', { idempotencyKey: 'k' })).id, ids[0]!.id)
    assert.equal((await texts('once')).length, 1)
  })

  it('refuses blank and over-long texts', async () => {
    for (const text of ['', '  \n', 'x'.repeat(8_001)]) await assert.rejects(service.remember(alice, text), { code: 'validation_failed' })
  })

  it('searches the newest entries of a large memory', async () => {
    for (let batch = 0; batch < 13; batch += 1)
      await Promise.all(Array.from({ length: 400 }, (_, index) => service.remember(alice, `entry number${batch * 400 + index} common`)))
    assert.deepEqual(await texts('number5199', alice, 1), ['entry number5199 common'])
    assert.equal((await texts('common', alice, 500)).length, 50)
  })

  it('serves agents through tools, and a repeated task remembers once', async () => {
    const { signal } = new AbortController()
    const context: ToolContext = { owner: alice, agentId: 'agt_1', sessionId: 'ses_1', taskId: 'tsk_1', signal, resting: work => work() }
    const run = (name: string, parameters: unknown): Promise<unknown> => {
      const tool = gateway.service(toolsRef).get(name)!
      return tool.execute(tool.parameters.parse(parameters), context)
    }
    const first = await run('memory.remember', { text: 'Alice is allergic to nuts' })
    assert.deepEqual(await run('memory.remember', { text: 'Alice is allergic to nuts' }), first)
    const found = (await run('memory.search', { query: 'allergic' })) as { text: string }[]
    assert.deepEqual(
      found.map(({ text }) => text),
      ['Alice is allergic to nuts'],
    )
  })
})
