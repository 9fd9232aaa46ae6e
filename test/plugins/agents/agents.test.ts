import assert from 'node:assert/strict'
import { agents as agentsRef } from '../../../plugins/agents/contract.js'
import type { TestGateway } from '../../support/gateway.js'
import { admin, newUser, ownerOf, startConversations, type Speaker } from '../chat/conversation.js'

describe('agents', () => {
  let gateway: TestGateway
  let me: Speaker

  before(async () => {
    gateway = await startConversations()
    me = await admin(gateway)
  })
  after(() => gateway.stop())

  it('are created, read, changed and deleted', async () => {
    const answer = await me.call('POST', '/agents', {
      name: '  Ada ',
      description: 'Counts',
      model: 'openai/gpt',
      instructions: 'Count.',
      colour: 'red',
    })
    assert.equal(answer.status, 201)
    assert.equal(answer.headers.get('location'), `/api/agents/${answer.body.id}`)
    assert.deepEqual(Object.keys(answer.body).toSorted(), ['createdAt', 'description', 'id', 'instructions', 'model', 'name', 'updatedAt'])
    assert.match(answer.body.id, /^agt_/)
    assert.equal(answer.body.name, 'Ada')
    assert.deepEqual(await me.expect(200, 'GET', `/agents/${answer.body.id}`), answer.body)
    const changed = await me.expect(200, 'PATCH', `/agents/${answer.body.id}`, { name: 'Grace', model: null, unknown: 1 })
    assert.equal(changed.name, 'Grace')
    assert.equal('model' in changed, false)
    assert.equal(changed.description, 'Counts')
    assert.equal(changed.createdAt, answer.body.createdAt)
    assert.ok(changed.updatedAt >= answer.body.updatedAt)
    await me.expect(204, 'DELETE', `/agents/${answer.body.id}`)
    await me.expect(404, 'GET', `/agents/${answer.body.id}`)
    await me.expect(404, 'DELETE', `/agents/${answer.body.id}`)
    await me.expect(404, 'PATCH', `/agents/${answer.body.id}`, { name: 'x' })
  })

  it('have SOUL.md, BOOT.md and HEARTBEAT.md, replaced as a whole', async () => {
    const { id } = await me.expect(201, 'POST', '/agents', { name: 'Texts' })
    for (const text of ['soul', 'boot', 'heartbeat']) {
      assert.deepEqual(await me.expect(200, 'GET', `/agents/${id}/${text}`), { content: '' })
      const content = `# ${text}\nZeilen, Umlaute: äöü 🙂\n`
      assert.deepEqual(await me.expect(200, 'PUT', `/agents/${id}/${text}`, { content }), { content })
      assert.deepEqual(await me.expect(200, 'GET', `/agents/${id}/${text}`), { content })
      for (const body of [{}, { content: 5 }, { content: 'x'.repeat(65_537) }]) {
        const { error } = await me.expect(422, 'PUT', `/agents/${id}/${text}`, body)
        assert.equal(error.details.issues[0].path, 'content')
      }
      await me.expect(404, 'PUT', `/agents/agt_unknown/${text}`, { content: '' })
    }
    assert.match((await me.expect(200, 'GET', `/agents/${id}/soul`)).content, /# soul/)
  })

  it('may use only their own user’s knowledge at first, and what their allow-list says then, known today or not', async () => {
    const { id } = await me.expect(201, 'POST', '/agents', { name: 'Tools' })
    assert.deepEqual(await me.expect(200, 'GET', `/agents/${id}/tools`), { tools: ['memory.*', 'documents.*', 'time.*'] })
    const tools = ['time.now', 'camera.capture', 'calendar.*', 'time.now']
    assert.deepEqual(await me.expect(200, 'PUT', `/agents/${id}/tools`, { tools }), { tools: ['time.now', 'camera.capture', 'calendar.*'] })
    assert.deepEqual(await me.expect(200, 'PUT', `/agents/${id}/tools`, { tools: ['*'] }), { tools: ['*'] })
    assert.deepEqual(await me.expect(200, 'PUT', `/agents/${id}/tools`, { tools: [] }), { tools: [] })
    for (const wrong of ['all', ['a b'], ['memory.**'], [''], [7], Array.from({ length: 201 }, (_, index) => `t.${index}`)])
      await me.expect(422, 'PUT', `/agents/${id}/tools`, { tools: wrong })
    assert.match((await me.ask('/remember x', { agentId: id })).reply, /may not use memory\.remember/)
  })

  it('refuse wrong fields by name', async () => {
    for (const [body, path] of [
      [{}, 'name'],
      [{ name: ' ' }, 'name'],
      [{ name: 'x'.repeat(101) }, 'name'],
      [{ name: 'x', model: 'a b' }, 'model'],
      [{ name: 'x', description: null }, 'description'],
      [{ name: 'x', instructions: 'x'.repeat(20_001) }, 'instructions'],
    ] as const) {
      const { error } = await me.expect(422, 'POST', '/agents', body)
      assert.equal(error.details.issues[0].path, path)
    }
    const { id } = await me.expect(201, 'POST', '/agents', { name: 'Patched' })
    await me.expect(422, 'PATCH', `/agents/${id}`, { name: null })
  })

  it('are listed in pages, newest first, for their user alone', async () => {
    const other = await newUser(gateway, 'lister@localhost')
    const made = []
    for (const name of ['one', 'two', 'three']) made.push((await other.expect(201, 'POST', '/agents', { name })).id)
    const first = await other.expect(200, 'GET', '/agents?limit=2')
    const second = await other.expect(200, 'GET', `/agents?limit=2&cursor=${first.nextCursor}`)
    assert.deepEqual(
      [...first.items, ...second.items].map(({ id }) => id),
      made.toReversed(),
    )
    assert.deepEqual([first.hasMore, second.hasMore, second.nextCursor], [true, false, null])
    await me.expect(400, 'GET', '/agents?cursor=wrong')
  })

  it('have a default: the oldest, made on first use once, made anew when all are deleted', async () => {
    const other = await newUser(gateway, 'default@localhost')
    const owner = await ownerOf(other)
    const agents = gateway.service(agentsRef)
    const made = await Promise.all(Array.from({ length: 8 }, () => agents.default(owner)))
    assert.equal(new Set(made.map(({ id }) => id)).size, 1)
    assert.match(made[0]!.soul, /helpful/)
    await other.expect(201, 'POST', '/agents', { name: 'younger' })
    assert.equal((await agents.default(owner)).id, made[0]!.id)
    for (const { id } of (await other.expect(200, 'GET', '/agents')).items) await other.expect(204, 'DELETE', `/agents/${id}`)
    const again = await agents.default(owner)
    assert.notEqual(again.id, made[0]!.id)
    await assert.rejects(agents.get(await ownerOf(me), again.id), { code: 'not_found' })
  })
})
