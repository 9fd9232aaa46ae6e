import assert from 'node:assert/strict'
import { waitFor } from '../../support/waitFor.js'
import { addScripted, ScriptedGateway } from './scripted.js'

describe('the connection of a channel', () => {
  let scripted: ScriptedGateway

  beforeEach(async () => {
    scripted = await ScriptedGateway.start()
  })
  afterEach(() => scripted.stop())

  const connects = async (): Promise<number> => (await scripted.journal()).filter(({ method }) => method === 'connect').length

  it('is tried again while the platform is down, and says why it is not there', async () => {
    const { id } = await scripted.addChannel({ onConnect: '{"act":"fail","message":"the platform is down"}' }, { status: 'error' })
    assert.equal((await scripted.channel(id)).lastError, 'the platform is down')
    await waitFor('a second attempt', async () => (await connects()) === 2)
    await scripted.expect(200, 'PATCH', `/channels/${id}`, { settings: { onConnect: null } })
    const { lastError } = await scripted.until(id, 'connected', ({ status }) => status === 'connected')
    assert.equal(lastError, undefined)
  })

  it('is not tried again when it was refused for good, until the settings or the plugin change', async () => {
    const { id } = await scripted.addChannel({ onConnect: '{"act":"reject","message":"wrong token"}' }, { status: 'error' })
    const fine = await scripted.addChannel()
    assert.equal(await connects(), 2)
    await addScripted(scripted.dataDir, 'scripted', { version: '2.0.0' })
    await scripted.untilPlugin('scripted', '2.0.0', ({ version, state }) => version === '2.0.0' && state === 'ready')
    await scripted.until(fine.id, 'connected', ({ status }) => status === 'connected')
    assert.equal((await scripted.channel(id)).lastError, 'wrong token')
    assert.equal(await connects(), 4)
  })

  it('ends when the channel is disabled, which takes no webhooks then, and comes back when it is enabled', async () => {
    const channel = await scripted.addChannel()
    assert.equal((await scripted.expect(200, 'PATCH', `/channels/${channel.id}`, { enabled: false })).status, 'disconnected')
    await waitFor('the end', async () => (await scripted.journal()).some(({ method }) => method === 'disconnect'))
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 404)
    const flips = Array.from({ length: 9 }, (_, i) => scripted.call('PATCH', `/channels/${channel.id}`, { enabled: i % 2 === 0 }))
    for (const { status } of await Promise.all(flips)) assert.equal(status, 200)
    await scripted.expect(200, 'PATCH', `/channels/${channel.id}`, { enabled: true })
    await scripted.until(channel.id, 'connected', ({ status }) => status === 'connected')
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 202)
    await scripted.untilSent(1)
    const turns = (await scripted.journal()).map(({ method }) => method).filter(method => method === 'connect' || method === 'disconnect')
    assert.ok(!/(^| )connect connect/.test(turns.join(' ')), 'connected twice at once')
  })

  it('does not connect anew for a new name', async () => {
    const { id } = await scripted.addChannel()
    assert.equal((await scripted.expect(200, 'PATCH', `/channels/${id}`, { name: 'renamed' })).name, 'renamed')
    assert.equal(await connects(), 1)
  })

  it('survives answers that break the protocol: they are kept, tried a few times, and hurt nobody', async () => {
    const channel = await scripted.addChannel()
    const answers = [7, null, { messages: 'none' }, { messages: [{ id: 1 }] }, { response: { status: 42 } }, { response: { body: {} } }]
    for (const answer of answers) {
      const { status } = await scripted.post(channel, JSON.stringify({ answer }))
      assert.equal(status, 202, JSON.stringify(answer))
    }
    assert.equal((await scripted.channel(channel.id)).inbox.waiting, answers.length)
    const second = await scripted.addChannel()
    await scripted.post(second, { id: 'm1' })
    await scripted.untilSent(1)
    assert.equal((await scripted.plugin()).restarts, 0)
  })

  it('puts a message that nobody could be answered for aside, with the reason', async () => {
    const channel = await scripted.addChannel()
    const message = { id: 'm1', text: 'hello', sender: { id: 'u1' }, metadata: { other: 'x' } }
    await scripted.post(channel, JSON.stringify({ answer: { messages: [message] } }))
    const { deadLetters } = await scripted.until(
      channel.id,
      'rid of it',
      ({ inbox, deadLetters: letters }) => inbox.dead === 1 && letters.length === 1,
    )
    assert.match(deadLetters[0].reason, /chatId/)
  })

  it('is described to everyone who may add a channel, page by page', async () => {
    const user = await scripted.otherUser()
    await waitFor('the type', async () => (await scripted.call('GET', '/channels/types')).body.items.length === 1)
    const { body } = await scripted.call('GET', '/channels/types', undefined, { token: user })
    const { type, source, pluginId, recipientMetadataKey, settings } = body.items[0]
    assert.deepEqual([type, source, pluginId, recipientMetadataKey], ['scripted', 'plugin', 'scripted', 'chatId'])
    assert.deepEqual(settings[0], { name: 'token', type: 'secret', displayName: 'token', required: true })
    for (let i = 0; i < 3; i++) await scripted.addChannel({}, { status: '' })
    const first = (await scripted.call('GET', '/channels?limit=2')).body
    assert.deepEqual([first.items.length, first.hasMore], [2, true])
    const rest = (await scripted.call('GET', `/channels?limit=2&cursor=${first.nextCursor as string}`)).body
    assert.deepEqual([rest.items.length, rest.hasMore, rest.nextCursor], [1, false, null])
  })
})
