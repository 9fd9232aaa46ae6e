import assert from 'node:assert/strict'
import { waitFor } from '../../support/waitFor.js'
import { addScripted, ScriptedGateway } from './scripted.js'

describe('a channel whose plugin fails', () => {
  let scripted: ScriptedGateway

  afterEach(() => scripted.stop())

  it('loses nothing when the plugin crashes on a webhook: one reply after the restart, other channels untouched', async () => {
    scripted = await ScriptedGateway.start({}, { scripted: {}, other: {} })
    const channel = await scripted.addChannel()
    const other = await scripted.addChannel({}, { type: 'other' })
    const crashed = await scripted.post(channel, { id: 'm1', wish: { act: 'crash', times: 1 } })
    assert.equal(crashed.status, 202)
    assert.match(await crashed.text(), /kept/)
    assert.equal((await scripted.post(other, { id: 'o1' })).status, 202)
    await scripted.untilSent(1, 'other')
    assert.equal((await scripted.channel(other.id)).status, 'connected')
    assert.equal((await scripted.journal('other')).filter(({ method }) => method === 'connect').length, 1)
    const sent = await scripted.untilSent(1)
    await scripted.post(channel, { id: 'm2' })
    await scripted.untilSent(2)
    await scripted.untilIdle(channel.id)
    assert.deepEqual(
      (await scripted.sent()).map(({ messageId }) => messageId),
      ['m1', 'm2'],
    )
    assert.equal(sent[0]?.messageId, 'm1')
    assert.equal((await scripted.plugin()).restarts, 1)
  })

  it('gives a webhook up after three crashes, as a dead letter with the reason, and goes on with what waits behind it', async () => {
    scripted = await ScriptedGateway.start()
    const channel = await scripted.addChannel()
    assert.equal((await scripted.post(channel, { id: 'poison', wish: { act: 'crash' } })).status, 202)
    assert.equal((await scripted.post(channel, { id: 'm2' })).status, 202)
    await scripted.untilSent(1)
    const { inbox, deadLetters } = await scripted.untilIdle(channel.id)
    assert.equal(inbox.dead, 1)
    assert.equal(deadLetters.length, 1)
    assert.match(deadLetters[0].reason, /died 3 times/)
    assert.equal(deadLetters[0].direction, 'inbound')
  })

  it('gives up the delivery that kills the plugin, and not those that are under way beside it', async () => {
    scripted = await ScriptedGateway.start()
    const [channel, other] = [await scripted.addChannel(), await scripted.addChannel()]
    const innocent = scripted.post(other, { id: 'innocent', wish: { slowMs: 600 } })
    assert.equal((await scripted.post(channel, { id: 'poison', wish: { act: 'crash', slowMs: 200 } })).status, 202)
    assert.equal((await innocent).status, 202)
    await scripted.until(channel.id, 'rid of the poison', ({ inbox }) => inbox.dead === 1)
    const [sent] = await scripted.untilSent(1)
    assert.equal(sent?.messageId, 'innocent')
    assert.equal((await scripted.untilIdle(other.id)).inbox.dead, 0)
  })

  it('is connected again when a new version dies right behind its take-over', async () => {
    scripted = await ScriptedGateway.start()
    const channel = await scripted.addChannel()
    await addScripted(scripted.dataDir, 'scripted', { version: '1.1.0', metadata: { exitAfterConnect: 1 } })
    await waitFor('the new version to have been tried', async () => (await scripted.journal()).some(({ version }) => version === '1.1.0'))
    await addScripted(scripted.dataDir, 'scripted', { version: '1.2.0' })
    await scripted.untilPlugin('scripted', '1.2.0', ({ version, state }) => version === '1.2.0' && state === 'ready')
    await scripted.until(channel.id, 'connected', ({ status }) => status === 'connected')
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 202)
    await scripted.untilSent(1)
  })
})
