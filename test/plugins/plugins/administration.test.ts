import assert from 'node:assert/strict'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { addPlugin } from '../../host/support.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

interface Listed {
  id: string
  state: string
  reason?: string
  version: string
  pid?: number
  sandbox: { tier: string | null; enforced: string[]; open: string[] }
}

describe('the administration of plugins', () => {
  let gateway: TestGateway
  let token: string
  let dataDir: string

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-test-'))
    await mkdir(join(dataDir, 'plugins'), { recursive: true })
    await start()
  })
  afterEach(() => gateway.stop())

  const start = async (env: Record<string, string> = {}): Promise<void> => {
    gateway = await startGateway({ dataDir, settings: { 'Service:Plugins:Enabled': 'true' }, env })
    token = await login(gateway)
  }
  const add = (folder: string, manifest: Record<string, unknown> = {}, mode = 'behave') =>
    addPlugin(join(dataDir, 'plugins', folder), typeof manifest.name === 'string' ? manifest.name : folder, mode, manifest)
  const list = async (): Promise<Listed[]> => (await gateway.call('GET', '/plugins', { token })).body.items as Listed[]
  const until = (id: string, state: string) =>
    waitFor(`${id} to be ${state}`, async () => (await list()).find(plugin => plugin.id === id && plugin.state === state))

  it('is for administrators', async () => {
    const other = { email: 'user@example.com', password: 'another long password' }
    await gateway.call('POST', '/admin/users', { token, body: { ...other, name: 'User', roles: ['User'] } })
    const user = await login(gateway, other)
    for (const [method, path] of [
      ['GET', '/plugins'],
      ['GET', '/plugins/x'],
      ['POST', '/plugins/x/restart'],
      ['POST', '/plugins/x/stop'],
      ['POST', '/plugins/scan'],
      ['PUT', '/plugins/settings'],
    ] as const) {
      assert.equal((await gateway.call(method, path, { token: user })).status, 403, path)
      assert.equal((await gateway.call(method, path)).status, 401, path)
    }
    assert.equal((await gateway.call('GET', '/channels/types', { token: user })).status, 200)
  })

  it('shows each plugin with its sandbox, and its metadata verbatim', async () => {
    await add('fine', { metadata: { nested: { any: ['thing', 1, null] } }, description: 'Reads' })
    const { sandbox, pid } = await until('fine', 'ready')
    assert.ok(pid && sandbox.tier && sandbox.enforced.length > 0 && sandbox.open.length > 0)
    const detail = (await gateway.call('GET', '/plugins/FINE', { token })).body
    assert.deepEqual(detail.metadata.nested, { any: ['thing', 1, null] })
    assert.equal(detail.description, 'Reads')
    assert.equal((await gateway.call('GET', '/plugins/none', { token })).status, 404)
  })

  it('warns of a channel adapter that may use the whole network, unless its manifest lists its hosts', async () => {
    const adapter = { pluginInterface: 'ChannelAdapter' }
    await add('open', { ...adapter, channelType: 'open' })
    await add('listed', { ...adapter, channelType: 'listed', permissions: { net: [] } })
    await add('reader', {})
    const warnings: Record<string, RegExp | undefined> = {
      open: /may use the whole network.*permissions\.net/,
      listed: undefined,
      reader: undefined,
    }
    for (const [id, expected] of Object.entries(warnings)) {
      await until(id, 'ready')
      const said = (await gateway.call('GET', `/plugins/${id}`, { token })).body.warnings.join('; ') as string
      if (expected) assert.match(said, expected)
      else assert.doesNotMatch(said, /network/)
    }
  })

  it('shows what is rejected and why, and nothing of what is no plugin', async () => {
    await add('tool', { pluginInterface: 'Tool' })
    await add('channel', { pluginInterface: 'ChannelAdapter', channelType: 'No Spaces!' })
    await add('other', { pluginInterface: undefined })
    await mkdir(join(dataDir, 'plugins', 'damaged'))
    await writeFile(join(dataDir, 'plugins', 'damaged', 'manifest.json'), '{ "name":')
    await add('one', { name: 'Twin', version: '1.0.0' })
    await add('two', { name: 'twin', version: '1.1.0' })
    await addPlugin(join(dataDir, 'plugins', 'one'), 'one', 'behave', { name: 'Twin', version: '1.0.0' })
    await addPlugin(join(dataDir, 'plugins', 'two'), 'two', 'behave', { name: 'twin', version: '1.1.0' })
    await gateway.call('POST', '/plugins/scan', { token })
    const twin = await until('twin', 'ready')
    assert.equal(twin.version, '1.1.0')
    const rejected = (await list()).filter(({ state }) => state === 'rejected')
    assert.deepEqual(rejected.map(({ id }) => id).sort(), ['Twin', 'channel', 'damaged', 'tool'])
    const reason = (id: string): string => rejected.find(plugin => plugin.id === id)?.reason ?? ''
    assert.match(reason('tool'), /Tool/)
    assert.match(reason('channel'), /channelType/)
    assert.match(reason('damaged'), /not valid JSON/)
    assert.match(reason('Twin'), /same id/)
  })

  it('stops and restarts a plugin; a stop lasts over a restart of the gateway', async () => {
    await add('fine')
    const { pid } = await until('fine', 'ready')
    assert.equal((await gateway.call('POST', '/plugins/fine/stop', { token })).body.state, 'stopped')
    await gateway.stop({ keep: true })
    await start()
    await until('fine', 'stopped')
    const again = await gateway.call('POST', '/plugins/fine/restart', { token })
    assert.deepEqual([again.status, again.body.state], [200, 'ready'])
    assert.notEqual(again.body.pid, pid)
    assert.equal((await gateway.call('POST', '/plugins/none/stop', { token })).status, 404)
  })

  it('switches plugins off and on and keeps an allow-list, at once and for good', async () => {
    await add('fine')
    await add('other')
    await until('fine', 'ready')
    const put = (body: unknown) => gateway.call('PUT', '/plugins/settings', { token, body })
    assert.deepEqual((await put({ allowlist: ['OTHER'] })).body, { enabled: true, allowlist: ['OTHER'] })
    await until('fine', 'disabled')
    await until('other', 'ready')
    assert.equal((await gateway.call('POST', '/plugins/fine/restart', { token })).status, 409)
    await put({ enabled: false })
    await until('other', 'disabled')
    await gateway.stop({ keep: true })
    await start()
    await until('other', 'disabled')
    assert.equal((await put({ enabled: 'yes' })).status, 422)
    assert.equal((await put({ allowlist: 'x' })).status, 422)
    await put({ enabled: true, allowlist: [] })
    await until('fine', 'ready')
  })

  it('names the variable that pins a key, and changes nothing', async () => {
    await gateway.stop({ keep: true })
    await start({ Service__Plugins__Enabled: 'true' })
    const refused = await gateway.call('PUT', '/plugins/settings', { token, body: { enabled: false, allowlist: ['x'] } })
    assert.equal(refused.status, 409)
    assert.match(refused.text, /Service__Plugins__Enabled/)
    assert.deepEqual((await gateway.call('PUT', '/plugins/settings', { token, body: {} })).body, { enabled: true, allowlist: [] })
  })
})
