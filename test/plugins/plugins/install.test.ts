import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { createLog } from '../../../core/log.js'
import { collection } from '../../../core/store/collection.js'
import { openStore } from '../../../core/store/open.js'
import type { AuditRow } from '../../../plugins/audit/service.js'
import { makeKey, pluginArchive, sealed, zipOf, type PluginArchive } from '../../host/archives.js'
import { addPlugin } from '../../host/support.js'
import { login, startGateway, type Answer, type TestGateway } from '../../support/gateway.js'
import { openCollection } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'

const HTTP_CHANNEL = fileURLToPath(new URL('../../../examples/plugins/http-channel', import.meta.url))

describe('the installation of plugins', () => {
  let gateway: TestGateway
  let token: string
  let dataDir: string

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-test-'))
    await start()
  })
  afterEach(() => gateway.stop())

  const start = async (settings: Record<string, string> = {}): Promise<void> => {
    gateway = await startGateway({ dataDir, settings: { 'Service:Plugins:Enabled': 'true', ...settings } })
    token = await login(gateway)
  }
  const restart = async (settings: Record<string, string> = {}): Promise<void> => {
    await gateway.stop({ keep: true })
    await start(settings)
  }
  const upload = (bytes: Buffer, query = '', field = 'file'): Promise<Answer> => {
    const form = new FormData()
    form.append(field, new Blob([bytes]), 'some.service-plugin')
    return gateway.call('POST', `/plugins/install${query}`, { token, body: form })
  }
  const install = async (archive: Partial<PluginArchive> = {}, query = ''): Promise<Answer> =>
    upload(await pluginArchive({ name: 'some', ...archive }), query)
  const get = async (id = 'some') => (await gateway.call('GET', `/plugins/${id}`, { token })).body
  const serves = (version: string, id = 'some') =>
    waitFor(`${id} to serve with ${version}`, async () => {
      const plugin = await get(id)
      return plugin?.state === 'ready' && plugin.version === version ? plugin : undefined
    })
  const roll = (id = 'some') => gateway.call('POST', `/plugins/${id}/rollback`, { token })
  const remove = (id = 'some', query = '') => gateway.call('DELETE', `/plugins/${id}${query}`, { token })
  const refuses = (answer: Answer, status: number, why: RegExp): void => {
    assert.equal(answer.status, status, answer.text)
    assert.match(answer.body.error.message, why)
  }
  /** Nothing is left of an upload, whatever became of it. */
  const isTidy = async (): Promise<void> => {
    for (const place of ['uploads', 'installs']) assert.deepEqual(await readdir(join(dataDir, 'tmp', place)).catch(() => []), [])
  }

  it('takes an archive and runs it, also after a restart', async () => {
    const answer = await install()
    assert.equal(answer.status, 201, answer.text)
    assert.match(answer.headers.get('Location') ?? '', /\/plugins\/some$/)
    assert.deepEqual([answer.body.id, answer.body.version, answer.body.signature.state], ['some', '1.0.0', 'unsigned'])
    assert.deepEqual([answer.body.installation.current.version, answer.body.installation.previous], ['1.0.0', null])
    await serves('1.0.0')
    await isTidy()
    await restart()
    await serves('1.0.0')
  })

  it('is for administrators, at most as often as is expensive, and audited', async () => {
    const other = { email: 'user@example.com', password: 'another long password' }
    await gateway.call('POST', '/admin/users', { token, body: { ...other, name: 'User', roles: ['User'] } })
    await restart({ 'Service:RateLimits:Expensive': '3' })
    const admin = token
    token = await login(gateway, other)
    for (const answer of [await install(), await roll(), await remove()]) assert.equal(answer.status, 403)
    token = admin
    const statuses = []
    for (let n = 0; n < 4; n++) statuses.push((await upload(Buffer.from('x'))).status)
    assert.deepEqual(statuses, [422, 422, 422, 429])
    await restart()
    await install()
    await install({ version: '2.0.0' })
    await roll()
    await remove()
    await remove()
    await gateway.stop({ keep: true })
    const store = await openStore({ dataDir, log: createLog({ level: 'error', write: () => undefined }) })
    const entries = await openCollection(store, 'audit.entries', collection.global<AuditRow>({ expires: true }))
    const said = (await entries.find({ action: { $regex: '^plugins' } }, { sort: { at: 1 } })).map(({ action, target, outcome, userId }) =>
      `${action} ${target ?? ''} ${outcome} ${userId === null ? 'by nobody' : ''}`.trim(),
    )
    await store.close()
    assert.deepEqual(said, [
      ...Array.from({ length: 3 }, () => 'plugins.install some.service-plugin failed'),
      'plugins.install some succeeded',
      'plugins.install some succeeded',
      'plugins.rollback some succeeded',
      'plugins.delete some succeeded',
      'plugins.delete some failed',
    ])
    await start()
  })

  it('replaces a version by a higher one, and goes back and forth', async () => {
    await install()
    await serves('1.0.0')
    assert.equal((await install({ version: '1.1.0' })).status, 201)
    const second = await serves('1.1.0')
    assert.equal(second.installation.previous.version, '1.0.0')
    assert.equal((await roll()).status, 200)
    await serves('1.0.0')
    await restart()
    assert.equal((await serves('1.0.0')).installation.previous.version, '1.1.0')
    await roll()
    await serves('1.1.0')
  })

  it('has rules for lower and equal versions', async () => {
    await install({ version: '2.0.0' })
    const first = (await serves('2.0.0')).installation
    refuses(
      await install({ version: '1.9.0' }),
      409,
      /installed in version 2\.0\.0, and 1\.9\.0 is lower: roll back, or install with force=true/,
    )
    refuses(await install({ version: '2.0.0-rc.1' }), 409, /is lower/)
    refuses(await install({ version: '2.0.0', text: 'other' }), 409, /is installed with other content/)
    refuses(await install({ version: '2.0.0+build.2' }), 409, /with other content/)
    const again = await install({ version: '2.0.0' })
    assert.deepEqual([again.status, again.body.installation], [201, first])
    assert.equal((await install({ version: '2.0.0', text: 'other' }, '?force=true')).status, 201)
    assert.equal((await install({ version: '1.9.0' }, '?force=true')).body.installation.previous.version, '2.0.0')
    await serves('1.9.0')
    assert.equal((await install({}, '?force=maybe')).status, 400)
  })

  it('refuses what is damaged, and changes nothing', async () => {
    await install()
    const before = await serves('1.0.0')
    const whole = await pluginArchive({ name: 'some', version: '2.0.0' })
    const manifest = { name: 'some', version: '2.0.0', pluginInterface: 'DocumentExtractor', supportedExtensions: ['.txt'] }
    const manifestFile = { 'manifest.json': JSON.stringify(manifest) }
    const cases: [Buffer, RegExp][] = [
      [Buffer.alloc(0), /cannot be read/],
      [Buffer.from('no zip'), /cannot be read/],
      [whole.subarray(0, whole.length / 2), /cannot be read/],
      [zipOf([...sealed({ ...manifestFile, 'some.js': '' }), { name: 'extra.js' }]), /"extra\.js" was added/],
      [zipOf(sealed(manifestFile)), /no program found/],
      [zipOf(sealed({ 'some.js': '' })), /holds no manifest\.json/],
      [zipOf(sealed({ 'manifest.json': '{', 'some.js': '' })), /not valid JSON/],
      [zipOf(sealed({ 'manifest.json': '{"name": "some"}', 'some.js': '' })), /names no pluginInterface/],
      [
        zipOf(sealed({ 'manifest.json': JSON.stringify({ ...manifest, name: undefined }), '.js': '' })),
        /cannot be a plugin's id: it is empty/,
      ],
      [zipOf(sealed({ 'manifest.json': JSON.stringify({ ...manifest, pluginInterface: 'Tool' }), 'some.js': '' })), /Tool/],
      [zipOf([...sealed({ ...manifestFile, 'some.js': '' }), { name: '../../plugins/evil.js' }]), /cannot be read|leads out/],
    ]
    for (const [bytes, why] of cases) refuses(await upload(bytes), 422, why)
    refuses(await upload(whole, '', 'other'), 422, /the form needs a file in the field "file"/)
    assert.equal((await gateway.call('POST', '/plugins/install', { token, body: { file: 'x' } })).status, 415)
    const after = await get()
    assert.deepEqual([after.pid, after.version, after.state, after.installation], [before.pid, '1.0.0', 'ready', before.installation])
    await isTidy()
  })

  it('leaves the old version serving when the new one cannot start, and says why', async () => {
    await install()
    const { pid } = await serves('1.0.0')
    assert.equal((await install({ version: '2.0.0', mode: 'exit-before-handshake' })).status, 201)
    const after = await waitFor('the reason', async () => {
      const plugin = await get()
      return plugin.lastError && plugin.state === 'ready' ? plugin : undefined
    })
    assert.deepEqual([after.pid, after.version], [pid, '1.0.0'])
    assert.match(after.lastError, /version 2\.0\.0 could not replace the running one/)
    await roll()
    await restart()
    await serves('1.0.0')
  })

  it('takes many at once, one after the other', async () => {
    const versions = ['1.0.0', '1.1.0', '1.2.0', '1.3.0', '1.4.0', '1.5.0']
    const answers = await Promise.all(versions.map(version => install({ version })))
    const taken = versions.filter((_, index) => answers[index]!.status === 201)
    for (const answer of answers) assert.ok([201, 409].includes(answer.status), answer.text)
    // Each was judged by the one before, so the highest is in force and the next lower one taken was kept.
    const { installation } = await serves('1.5.0')
    assert.equal(installation.previous?.version ?? undefined, taken.at(-2))
    assert.equal((await readdir(join(dataDir, 'plugin-installs/some'))).length, taken.length > 1 ? 3 : 2)
  })

  it('deletes what was installed; the data only when asked to', async () => {
    await install()
    await serves('1.0.0')
    await writeFile(join(dataDir, 'plugin-data/some/kept'), 'x')
    await gateway.call('POST', '/plugins/some/stop', { token })
    assert.deepEqual([(await remove()).status, (await get()).error.code], [204, 'not_found'])
    assert.deepEqual(await readdir(join(dataDir, 'plugin-installs')), [])
    await stat(join(dataDir, 'plugin-data/some/kept'))
    await assert.rejects(stat(join(dataDir, 'plugin-versions/some')), { code: 'ENOENT' })
    // It is new again: it was stopped once, and is not any more.
    await install()
    await serves('1.0.0')
    assert.equal((await remove('SOME', '?deleteData=true')).status, 204)
    await assert.rejects(stat(join(dataDir, 'plugin-data/some')), { code: 'ENOENT' })
    assert.equal((await remove()).status, 404)
    await restart()
    assert.equal((await get()).error.code, 'not_found')
  })

  it('keeps the channels of a deleted plugin, which connect when it is installed again', async () => {
    const archive = zipOf(
      sealed({
        'manifest.json': await readFile(join(HTTP_CHANNEL, 'manifest.json')),
        'http-channel.cjs': await readFile(join(HTTP_CHANNEL, 'publish/http-channel.cjs')),
      }),
    )
    assert.equal((await upload(archive)).status, 201)
    await waitFor('the plugin', async () => (await get('http-channel')).state === 'ready')
    const settings = { secret: 'a-long-shared-secret', callbackUrl: 'http://127.0.0.1:9/' }
    const { id } = (await gateway.call('POST', '/channels', { token, body: { type: 'http', name: 'Kept', settings } })).body
    const channel = async () => (await gateway.call('GET', `/channels/${id as string}`, { token })).body
    await waitFor('the channel to connect', async () => (await channel()).status === 'connected')
    assert.equal((await remove('http-channel')).status, 204)
    const left = await waitFor('the channel to be left', async () => ((await channel()).status === 'connected' ? undefined : channel()))
    assert.deepEqual([left.name, left.settings.secret], ['Kept', '********'])
    await upload(archive)
    await waitFor('the channel to connect again', async () => (await channel()).status === 'connected')
  })

  it('leaves alone what lies in a plugin directory', async () => {
    const folder = join(dataDir, 'plugins/some')
    await addPlugin(folder, 'some', 'behave', { version: '2.0.0' })
    await gateway.call('POST', '/plugins/scan', { token })
    await serves('2.0.0')
    refuses(await remove(), 409, /was not installed: it comes from .*plugins\/some, so remove or replace it there/)
    refuses(await roll(), 409, /was not installed/)
    refuses(await install({ version: '1.0.0' }, '?force=true'), 409, /would not run: .*plugins\/some holds version 2\.0\.0/)
    // The higher one runs; at equal versions the installed one.
    await install({ version: '2.0.0' })
    const installed = await waitFor('the installed one', async () => {
      const plugin = await get()
      return plugin.installation && plugin.state === 'ready' ? plugin : undefined
    })
    assert.match(installed.source, /plugin-installs/)
    refuses(await remove('some', '?deleteData=true'), 409, /lies in .*plugins\/some too/)
    assert.equal((await remove()).status, 204)
    const { source } = await waitFor('the folder to serve', async () => {
      const plugin = await get()
      return plugin?.source === folder && plugin.state === 'ready' ? plugin : undefined
    })
    assert.equal(source, folder)
    await stat(join(folder, 'manifest.json'))
  })

  it('rolls back only to what there is', async () => {
    assert.equal((await roll()).status, 404)
    await install()
    refuses(await roll(), 409, /has no earlier version/)
    await install({ version: '2.0.0' })
    const { installation } = await serves('2.0.0')
    await writeFile(join(dataDir, 'plugin-installs/some', `${installation.previous.digest as string}.service-plugin`), 'damaged')
    refuses(await roll(), 409, /The earlier version cannot come back: the archive cannot be read/)
    await serves('2.0.0')
  })

  it('shows an installed archive that was damaged on disk, and mends it when it is installed again', async () => {
    await install()
    const { installation } = await serves('1.0.0')
    await gateway.stop({ keep: true })
    await writeFile(
      join(dataDir, 'plugin-installs/some', `${installation.current.digest as string}.service-plugin`),
      await pluginArchive({ name: 'some', text: 'x' }),
    )
    await start()
    const damaged = await waitFor('the rejection', async () => {
      const plugin = await get()
      return plugin?.state === 'rejected' ? plugin : undefined
    })
    assert.match(damaged.reason, /was changed on disk: install it again/)
    assert.equal(damaged.signature.state, 'invalid')
    assert.equal((await install()).status, 201)
    await serves('1.0.0')
  })

  it('publishes whose signature an archive has, as the trusted keys change', async () => {
    const key = makeKey()
    assert.deepEqual((await install({ key })).body.signature, {
      state: 'unknown-key',
      reason: 'signed with a key that is not in Service:Plugins:TrustedKeys',
      key: key.publicKey,
    })
    await serves('1.0.0')
    await restart({ 'Service:Plugins:TrustedKeys': key.publicKey, 'Service:Plugins:RequireSignature': 'true' })
    assert.equal((await serves('1.0.0')).signature.state, 'trusted')
    refuses(await install({ version: '2.0.0' }), 422, /RequireSignature is on, and .* nobody signed them/)
    refuses(await install({ version: '2.0.0', key: makeKey() }), 422, /RequireSignature is on, and signed with a key that is not/)
    assert.equal((await install({ version: '2.0.0', key })).status, 201)
    await serves('2.0.0')
  })

  it('works while plugins are switched off, and does not start them', async () => {
    await restart({ 'Service:Plugins:Enabled': 'false' })
    const { status, body } = await install()
    assert.deepEqual([status, body.state], [201, 'disabled'])
  })

  it('is not disturbed by what stands in the way of its folder', async () => {
    await mkdir(join(dataDir, 'plugin-installs'), { recursive: true })
    await writeFile(join(dataDir, 'plugin-installs/stray'), 'x')
    assert.equal((await install()).status, 201)
    await serves('1.0.0')
    await rm(join(dataDir, 'plugin-installs/stray'), { force: true })
  })
})
