import assert from 'node:assert/strict'
import { waitFor } from '../../support/waitFor.js'
import { addScripted, ScriptedGateway } from './scripted.js'

const SENDERS = 8
const RELOADS = 3

describe('the reload of a channel adapter', () => {
  let scripted: ScriptedGateway

  afterEach(() => scripted.stop())

  it('loses, refuses and doubles nothing while deliveries stream in', async () => {
    scripted = await ScriptedGateway.start({ 'Service:Chat:MaxPending': '100000' })
    const channel = await scripted.addChannel()
    const statuses = new Map<string, number>()
    let streaming = true
    const stream = async (sender: number): Promise<void> => {
      for (let n = 0; streaming; n++) {
        const id = `s${String(sender)}-${String(n)}`
        const answer = await scripted.post(channel, { id, chatId: String(sender), text: `/help ${id}` })
        await answer.arrayBuffer()
        statuses.set(id, answer.status)
        await new Promise(resolve => setTimeout(resolve, 20))
      }
    }
    const senders = Array.from({ length: SENDERS }, (_, sender) => stream(sender))
    for (let reload = 1; reload <= RELOADS; reload++) {
      const version = `1.${String(reload)}.0`
      await addScripted(scripted.dataDir, 'scripted', { version })
      await scripted.untilPlugin('scripted', version, plugin => plugin.version === version && plugin.state === 'ready')
    }
    streaming = false
    await Promise.all(senders)
    assert.deepEqual([...new Set(statuses.values())], [202])
    await scripted.untilIdle(channel.id, 60_000)
    const sent = await scripted.untilSent(statuses.size)
    const { inbox, outbox } = await scripted.channel(channel.id)
    assert.deepEqual([inbox.dead, outbox.dead], [0, 0])
    assert.deepEqual(sent.map(({ messageId }) => messageId).sort(), [...statuses.keys()].sort())
    const versions = new Set((await scripted.journal()).filter(({ method }) => method === 'webhook').map(({ version }) => version))
    assert.ok(versions.size > 1, 'the deliveries met one version only')
    for (let sender = 0; sender < SENDERS; sender++) {
      const order = sent.filter(({ recipient }) => recipient === String(sender)).map(({ messageId }) => Number(messageId.split('-')[1]))
      assert.deepEqual(
        order,
        [...order].sort((a, b) => a - b),
      )
    }
  })

  it('hands the cursor of the old version to the new one', async () => {
    scripted = await ScriptedGateway.start()
    await scripted.addChannel()
    await addScripted(scripted.dataDir, 'scripted', { version: '2.0.0' })
    await scripted.untilPlugin('scripted', '2.0.0', ({ version, state }) => version === '2.0.0' && state === 'ready')
    const connects = (await scripted.journal()).filter(({ method }) => method === 'connect')
    assert.deepEqual(
      connects.map(({ version, cursor }) => [version, cursor]),
      [
        ['1.0.0', undefined],
        ['2.0.0', 'left by 1.0.0'],
      ],
    )
  })

  it('is not taken back for a change of a channel that is just being moved', async () => {
    scripted = await ScriptedGateway.start()
    const channel = await scripted.addChannel()
    await addScripted(scripted.dataDir, 'scripted', { version: '2.0.0', metadata: { connect: { slowMs: 1500 } } })
    await waitFor('the move', async () =>
      (await scripted.journal()).some(({ method, version }) => method === 'connect' && version === '2.0.0'),
    )
    await scripted.expect(200, 'PATCH', `/channels/${channel.id}`, { settings: { info: 'changed meanwhile' } })
    await scripted.untilPlugin('scripted', '2.0.0', ({ version, state }) => version === '2.0.0' && state === 'ready')
    await scripted.until(channel.id, 'connected', ({ status, info }) => status === 'connected' && info === 'changed meanwhile')
    assert.equal((await scripted.plugin()).lastError, undefined)
  })

  it('is taken back when the new version dies as it connects: the old one goes on, and nothing is lost', async () => {
    scripted = await ScriptedGateway.start()
    const channel = await scripted.addChannel()
    await addScripted(scripted.dataDir, 'scripted', { version: '1.1.0', metadata: { connect: { act: 'crash' } } })
    await scripted.untilPlugin('scripted', 'back', ({ lastError, state }) => /1\.1\.0/.test(String(lastError)) && state === 'ready')
    await scripted.until(channel.id, 'connected', ({ status }) => status === 'connected')
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 202)
    const [sent] = await scripted.untilSent(1)
    assert.equal(sent?.version, '1.0.0')
  })
})
