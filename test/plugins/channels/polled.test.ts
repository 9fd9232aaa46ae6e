import assert from 'node:assert/strict'
import { RpcErrorCode } from '../../../sdk/protocol.js'
import { channelStatusChanged } from '../../../plugins/channels/contract.js'
import { plugins } from '../../../plugins/index.js'
import { definePlugin } from '../../../core/plugin.js'
import { waitFor } from '../../support/waitFor.js'
import { ScriptedGateway } from './scripted.js'

describe('a channel that is polled', () => {
  let scripted: ScriptedGateway

  afterEach(() => scripted.stop())

  it('is told to come again when its inbox is full, and what was taken is answered once', async () => {
    scripted = await ScriptedGateway.start({ 'Service:Chat:MaxPending': '1' })
    const channel = await scripted.addChannel({ polled: '[3, 500, 490, 500, 3]' })
    const received = await waitFor('the answers', async () => {
      const answers = (await scripted.journal()).filter(({ method }) => method === 'received')
      return answers.length === 5 ? answers : undefined
    })
    assert.deepEqual(
      received.slice(0, 3).map(({ accepted }) => accepted),
      [3, 500, 490],
    )
    const { code, data } = received[3]!.error!
    assert.equal(code, RpcErrorCode.temporary)
    assert.equal(data?.retryable, true)
    assert.ok(data.retryAfterMs! > 0)
    assert.equal(received[4]!.accepted, 3)
    assert.ok((await scripted.channel(channel.id)).inbox.waiting > 900)
    const sent = (await scripted.untilSent(3)).map(({ messageId }) => messageId)
    assert.deepEqual(sent.slice(0, 3), ['p0-0', 'p0-1', 'p0-2'])
  })

  it('may repeat how it is doing as often as it likes', async () => {
    let events = 0
    const listener = definePlugin({
      id: 'listener',
      setup: ({ on }) => {
        on(channelStatusChanged, () => void (events += 1))
      },
    })
    scripted = await ScriptedGateway.start({}, { scripted: {} }, [...plugins, listener])
    const channel = await scripted.addChannel({ reports: '3000' }, { status: 'error' })
    assert.equal((await scripted.channel(channel.id)).lastError, 'the platform is down')
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 202)
    assert.ok(events < 10, String(events))
  })
})
