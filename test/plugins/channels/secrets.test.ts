import assert from 'node:assert/strict'
import { readdir, readFile, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { collections } from '../../../plugins/channels/rows.js'
import vault from '../../../plugins/vault/index.js'
import { waitFor } from '../../support/waitFor.js'
import { addScripted, ScriptedGateway, TOKEN } from './scripted.js'

const MASK = '********'
const PIN = 'a-pin-nobody-knows'

describe('the secrets of channels', () => {
  let scripted: ScriptedGateway

  beforeEach(async () => {
    scripted = await ScriptedGateway.start()
  })
  afterEach(() => scripted.stop())

  /** Names in the vault, of the stopped gateway. */
  const inVault = async (): Promise<string[]> => {
    await scripted.gateway.stop({ keep: true })
    return (await scripted.records('vault', 'secrets', vault.collections!.secrets!))
      .map(({ name }) => String(name))
      .filter(name => name.startsWith('channel/'))
      .sort()
  }
  const connectedWith = async (id: string, count: number, plugin?: string): Promise<Record<string, string>> =>
    (
      await waitFor('the connection', async () => {
        const connects = (await scripted.journal(plugin)).filter(({ method, channelId }) => method === 'connect' && channelId === id)
        return connects.length >= count ? connects.at(-1) : undefined
      })
    ).settings

  it('are kept when the mask comes back, changed when a value does, and removed by null', async () => {
    const { id } = await scripted.addChannel({ pin: PIN, info: 'one' })
    const shown = (await scripted.channel(id)).settings
    assert.deepEqual([shown.token, shown.pin, shown.info], [MASK, MASK, 'one'])
    const back = await scripted.expect(200, 'PATCH', `/channels/${id}`, { settings: { ...shown, info: 'two' } })
    assert.deepEqual([back.settings.token, back.settings.pin, back.settings.info], [MASK, MASK, 'two'])
    assert.deepEqual(await connectedWith(id, 2), { token: TOKEN, pin: PIN, info: 'two' })
    await scripted.expect(200, 'PATCH', `/channels/${id}`, { settings: { pin: 'another-pin-nobody-knows' } })
    assert.equal((await connectedWith(id, 3)).pin, 'another-pin-nobody-knows')
    const removed = await scripted.expect(200, 'PATCH', `/channels/${id}`, { settings: { pin: null } })
    assert.ok(!('pin' in removed.settings))
    assert.deepEqual(await connectedWith(id, 4), { token: TOKEN, info: 'two' })
    assert.deepEqual(await inVault(), [`channel/${id}/token`])
    await scripted.begin()
  })

  it('are never the mask: nothing is stored for it where nothing was', async () => {
    const { error } = await scripted.expect(422, 'POST', '/channels', { type: 'scripted', name: 'x', settings: { token: MASK } })
    assert.equal(error.details.issues[0].path, 'settings.token')
    const { id } = await scripted.addChannel({ pin: MASK, info: MASK })
    assert.deepEqual(await connectedWith(id, 1), { token: TOKEN })
    assert.deepEqual(await inVault(), [`channel/${id}/token`])
    await scripted.begin()
  })

  it('leave the vault with their channel, and none is left by a change that was refused', async () => {
    const { id } = await scripted.addChannel({ pin: PIN })
    await scripted.expect(422, 'PATCH', `/channels/${id}`, { settings: { pin: 'x-another-pin' }, agentId: 'agt_unknown' })
    assert.equal((await connectedWith(id, 1)).pin, PIN)
    await scripted.expect(422, 'POST', '/channels', { type: 'scripted', name: 'x', settings: { pin: PIN } })
    // Changes and the deletion at once: whichever order they come in, nothing is left.
    const changes = Array.from({ length: 10 }, (_, i) =>
      scripted.call('PATCH', `/channels/${id}`, { settings: { pin: `pin-number-${String(i)}` } }),
    )
    const deletion = scripted.call('DELETE', `/channels/${id}`)
    const late = Array.from({ length: 10 }, (_, i) =>
      scripted.call('PATCH', `/channels/${id}`, { settings: { pin: `late-number-${String(i)}` } }),
    )
    assert.equal((await deletion).status, 204)
    for (const { status } of await Promise.all([...changes, ...late])) assert.ok([200, 404].includes(status), String(status))
    assert.deepEqual(await inVault(), [])
    await scripted.begin()
  })

  it('are found by their names while the plugin is unknown, and by the manifest once it is back', async () => {
    await addScripted(scripted.dataDir, 'late', { settings: [] })
    await scripted.untilPlugin('late', 'ready', ({ state }) => state === 'ready')
    await rm(join(scripted.dataDir, 'plugins', 'late'), { recursive: true })
    await waitFor('the plugin to be gone', async () => (await scripted.call('GET', '/plugins/late')).status === 404)
    const guessed = await scripted.expect(201, 'POST', '/channels', {
      type: 'late',
      name: 'guessed',
      settings: { botToken: 'hidden-by-its-name', api_key: 'hidden-by-its-name-too', pin: 'plain-until-declared', info: 'plain' },
    })
    assert.deepEqual(guessed.settings, { botToken: MASK, api_key: MASK, pin: 'plain-until-declared', info: 'plain' })
    assert.equal(guessed.status, 'disconnected')
    const again = await scripted.expect(200, 'PATCH', `/channels/${guessed.id as string}`, { settings: guessed.settings })
    assert.deepEqual(again.settings, guessed.settings)
    await addScripted(scripted.dataDir, 'late', {
      version: '2.0.0',
      settings: [{ name: 'botToken', type: 'secret' }, { name: 'pin', type: 'secret' }, { name: 'info' }],
    })
    await scripted.until(guessed.id as string, 'connected', ({ status }) => status === 'connected')
    const settings = await connectedWith(guessed.id as string, 1, 'late')
    assert.deepEqual(settings, { botToken: 'hidden-by-its-name', pin: 'plain-until-declared', info: 'plain' })
    assert.deepEqual((await scripted.channel(guessed.id as string)).settings, { botToken: MASK, api_key: MASK, pin: MASK, info: 'plain' })
    // What the manifest does not name can still be taken out.
    const without = await scripted.expect(200, 'PATCH', `/channels/${guessed.id as string}`, { settings: { api_key: null } })
    assert.ok(!('api_key' in without.settings))
    const names = await inVault()
    assert.deepEqual(names, [`channel/${guessed.id as string}/botToken`, `channel/${guessed.id as string}/pin`])
    const rows = await scripted.records('channels', 'rows', collections.rows)
    assert.ok(!JSON.stringify(rows).includes('plain-until-declared'))
    await scripted.begin()
  })

  it('are in no answer, no log and no file, though the adapter says them in every error', async () => {
    const says = (act: string): string => JSON.stringify({ act, message: 'the platform refused $TOKEN' })
    const failing = await scripted.addChannel({ onConnect: says('reject') }, { status: 'error' })
    const { lastError } = await scripted.channel(failing.id)
    assert.equal(lastError, `the platform refused ${MASK}`)
    const channel = await scripted.addChannel({ info: 'fine', onTest: says('throw') })
    await scripted.post(channel, { id: 'm1', wish: { act: 'reject', message: 'no, says $TOKEN' } }).then(async answer => {
      assert.ok(!(await answer.text()).includes(TOKEN))
    })
    await scripted.post(channel, { id: 'm2', onSend: { act: 'reject', message: 'no, says $TOKEN' } })
    await scripted.until(channel.id, 'given up', ({ outbox }) => outbox.dead === 1)
    await scripted.call('POST', `/channels/${channel.id}/test`)
    for (const path of [
      `/channels/${channel.id}`,
      `/channels/${failing.id}`,
      '/channels',
      '/channels/types',
      '/plugins',
      '/plugins/scripted',
    ])
      assert.ok(!(await scripted.call('GET', path)).text.includes(TOKEN), path)
    assert.ok(!scripted.gateway.logged().includes(TOKEN))
    await scripted.gateway.stop({ keep: true })
    const files = (await readdir(scripted.dataDir, { recursive: true, withFileTypes: true })).filter(
      file => file.isFile() && file.name !== 'journal.jsonl',
    )
    for (const file of files) assert.ok(!(await readFile(join(file.parentPath, file.name))).includes(TOKEN), file.name)
    await scripted.begin()
  })
})
