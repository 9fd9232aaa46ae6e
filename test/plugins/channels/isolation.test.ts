import assert from 'node:assert/strict'
import { waitFor } from '../../support/waitFor.js'
import { ScriptedGateway, type Noted } from './scripted.js'

/** As many channels as are worked on at once for one plugin, and a few more. */
const MANY = 20

/** How long an adapter may take to connect. */
const CONNECT_LIMIT_MS = 30_000

describe('the channels of one plugin and those of another', () => {
  let scripted: ScriptedGateway

  beforeEach(async () => {
    scripted = await ScriptedGateway.start({}, { scripted: {}, other: {} })
  })
  afterEach(() => scripted.stop())

  it('connect apart from each other: an adapter that hangs holds up nobody else', async () => {
    const isConnect = ({ method }: Noted): boolean => method === 'connect'
    const other = await scripted.addChannel({}, { type: 'other' })
    const hang = { onConnect: JSON.stringify({ act: 'hang' }) }
    await scripted.addChannel(hang, { status: 'connecting' })
    for (let i = 1; i < MANY; i++) await scripted.addChannel(hang, { status: '' })
    await scripted.call('POST', '/plugins/scripted/restart')
    await scripted.call('POST', '/plugins/other/restart')
    await waitFor('the new connection', async () => (await scripted.journal('other')).filter(isConnect).length === 2)
    await scripted.until(other.id, 'connected', ({ status }) => status === 'connected')
  })

  it('are worked off apart from each other: an adapter that hangs on its replies holds up nobody else', async () => {
    for (let i = 0; i < MANY; i++) {
      const channel = await scripted.addChannel({}, { status: i === 0 ? 'connected' : '' })
      assert.equal((await scripted.post(channel, { id: `m${String(i)}`, onSend: { act: 'hang' } })).status, 202)
    }
    const other = await scripted.addChannel({}, { type: 'other' })
    await scripted.post(other, { id: 'o1' })
    await scripted.untilSent(1, 'other')
  })

  it('answer a deletion and a change at once, though the adapter hangs as it connects', async () => {
    const channel = await scripted.addChannel({ onConnect: JSON.stringify({ act: 'hang' }) }, { status: 'connecting' })
    const before = Date.now()
    await scripted.expect(200, 'PATCH', `/channels/${channel.id}`, { settings: { onConnect: null } })
    await scripted.until(channel.id, 'connected', ({ status }) => status === 'connected')
    await scripted.expect(200, 'PATCH', `/channels/${channel.id}`, { settings: { onConnect: '{"act":"hang"}' } })
    await scripted.expect(204, 'DELETE', `/channels/${channel.id}`)
    assert.ok(Date.now() - before < CONNECT_LIMIT_MS, 'it waited for the connection to fail')
    await scripted.expect(404, 'GET', `/channels/${channel.id}`)
  })
})
