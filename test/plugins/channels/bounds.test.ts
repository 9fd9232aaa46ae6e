import assert from 'node:assert/strict'
import { waitFor } from '../../support/waitFor.js'
import { ScriptedGateway } from './scripted.js'

describe('the queues of a channel', () => {
  let scripted: ScriptedGateway

  beforeEach(async () => {
    scripted = await ScriptedGateway.start()
  })
  afterEach(() => scripted.stop())

  it('refuse what a full inbox cannot take, and lose nothing of what it took', async () => {
    const channel = await scripted.addChannel()
    await scripted.expect(200, 'POST', '/plugins/scripted/stop')
    const taken: string[] = []
    let refused = 0
    for (const size of [1_000_000, 100_000, 10_000, 2_000])
      for (;;) {
        const id = `m${String(taken.length)}`
        const answer = await scripted.post(
          channel,
          JSON.stringify({ id, chatId: '1', text: 'y'.repeat(1900), padding: 'x'.repeat(size - 2000) }),
        )
        const text = await answer.text()
        if (answer.status === 202) taken.push(id)
        else {
          assert.equal(answer.status, 503)
          assert.ok(Number(answer.headers.get('retry-after')) > 0)
          assert.equal(JSON.parse(text).error.code, 'service_unavailable')
          refused += 1
          break
        }
      }
    assert.equal(refused, 4)
    assert.ok(taken.length > 15)
    assert.equal((await scripted.channel(channel.id)).inbox.waiting, taken.length)
    await scripted.expect(200, 'POST', '/plugins/scripted/restart')
    const sent = await scripted.untilSent(taken.length)
    assert.deepEqual(
      sent.map(({ messageId }) => messageId),
      taken,
    )
    const { inbox, outbox } = await scripted.untilIdle(channel.id)
    assert.deepEqual([inbox.dead, outbox.dead], [0, 0])
    assert.equal((await scripted.post(channel, { id: 'after' })).status, 202)
  })

  it('keep an acknowledged request that the adapter puts off, and show it again', async () => {
    const channel = await scripted.addChannel()
    await scripted.expect(200, 'POST', '/plugins/scripted/stop')
    assert.equal((await scripted.post(channel, { id: 'm1', wish: { status: 503, times: 1 } })).status, 202)
    assert.equal((await scripted.post(channel, { id: 'forged', wish: { status: 401 } })).status, 202)
    await scripted.expect(200, 'POST', '/plugins/scripted/restart')
    const [sent] = await scripted.untilSent(1)
    assert.equal(sent?.messageId, 'm1')
    const { inbox } = await scripted.untilIdle(channel.id)
    assert.equal(inbox.dead, 0)
    assert.equal((await scripted.sent()).length, 1)
  })

  it('put a reply that the adapter refuses for good aside, with the reason, and go on', async () => {
    const channel = await scripted.addChannel()
    await scripted.post(channel, { id: 'm1', onSend: { act: 'reject', message: 'no such chat, says $TOKEN' } })
    await scripted.post(channel, { id: 'm2' })
    await scripted.untilSent(1)
    const { outbox, deadLetters } = await scripted.untilIdle(channel.id)
    assert.equal(outbox.dead, 1)
    assert.deepEqual(
      deadLetters.map(({ direction, reason }: { direction: string; reason: string }) => [direction, reason]),
      [['outbound', 'no such chat, says ********']],
    )
    assert.equal((await scripted.journal()).filter(({ method, messageId }) => method === 'send' && messageId === 'm1').length, 1)
  })

  it('try a reply again that may work later, and keep the order for its recipient while others pass', async () => {
    const channel = await scripted.addChannel()
    await scripted.post(channel, { id: 'a1', chatId: 'a', onSend: { act: 'fail', times: 2 } })
    for (const id of ['a2', 'a3']) await scripted.post(channel, { id, chatId: 'a' })
    await scripted.post(channel, { id: 'b1', chatId: 'b' })
    const sent = (await scripted.untilSent(4)).map(({ messageId }) => messageId)
    assert.equal(sent[0], 'b1')
    assert.deepEqual(sent.slice(1), ['a1', 'a2', 'a3'])
    const tries = (await scripted.journal()).filter(({ method, messageId }) => method === 'send' && messageId === 'a1')
    assert.equal(tries.length, 3)
    assert.equal(new Set(tries.map(({ deliveryId }) => deliveryId)).size, 1)
  })

  it('wait for a slow adapter, and for one that hangs hold up no other recipient', async () => {
    const channel = await scripted.addChannel()
    await scripted.post(channel, { id: 'hangs', chatId: 'b', onSend: { act: 'hang' } })
    await waitFor('the adapter to hang', async () => (await scripted.journal()).some(({ method }) => method === 'send'))
    await scripted.post(channel, { id: 'slow', chatId: 'a', onSend: { slowMs: 500 } })
    await scripted.post(channel, { id: 'behind', chatId: 'a' })
    const sent = (await scripted.untilSent(2)).map(({ messageId }) => messageId)
    assert.deepEqual(sent, ['slow', 'behind'])
  })

  it('let the default agent answer when that of the channel was deleted', async () => {
    const agent = await scripted.expect(201, 'POST', '/agents', { name: 'Short-lived' })
    const channel = await scripted.addChannel({}, { agentId: agent.id })
    await scripted.expect(204, 'DELETE', `/agents/${agent.id as string}`)
    await scripted.post(channel, { id: 'm1' })
    await scripted.untilSent(1)
  })
})
