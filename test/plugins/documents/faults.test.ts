import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { ADMIN, login } from '../../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../../support/gatewayProcess.js'
import { waitFor } from '../../support/waitFor.js'
import { Library, Reader } from './library.js'

describe('documents that a plugin reads', () => {
  let dataDir: string
  let gateway: GatewayProcess
  let token: string
  let library: Library
  let reader: Reader

  const start = async (): Promise<void> => {
    const settings = {
      'Service:Plugins:Enabled': 'true',
      'Service:Admin:Password': ADMIN.password,
    }
    gateway = await launchGateway({ dataDir, settings })
    token = await login(gateway)
    library = new Library(gateway, token)
  }

  const pluginIs = (state: string): Promise<unknown> =>
    waitFor(`the plugin to be ${state}`, async () => (await gateway.call('GET', '/plugins/reader', { token })).body.state === state)

  const restarts = async (): Promise<number> => (await gateway.call('GET', '/plugins/reader', { token })).body.restarts as number

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-documents-'))
    reader = new Reader(dataDir)
    await reader.install()
    await start()
    await pluginIs('ready')
  })
  afterEach(async () => {
    await gateway.stop('SIGKILL')
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
  })

  it('go on after kill -9 of the gateway, and are read once', async () => {
    const id = await library.add('hold.odd', 'kept')
    await reader.isAsked('hold.odd')
    gateway.kill('SIGKILL')
    await gateway.exited
    await start()
    await reader.isAsked('hold.odd', 2)
    await reader.release()
    const { status, text } = await library.settled(id)
    assert.deepEqual([status, text], ['ready', '1.0.0 read kept'])
    assert.equal((await reader.calls()).length, 2)
    assert.deepEqual((await readdir(join(dataDir, 'documents', id))).sort(), ['v1', 'v1.txt'])
  })

  it('are given up when the gateway was killed three times while they were read', async () => {
    const id = await library.add('hold.odd')
    for (let kills = 1; kills <= 3; kills++) {
      await reader.isAsked('hold.odd', kills)
      gateway.kill('SIGKILL')
      await gateway.exited
      await start()
    }
    const { status, reason } = await library.settled(id)
    assert.equal(status, 'failed')
    assert.match(reason ?? '', /given up: 3 times the gateway ended, or failed/)
    assert.equal((await reader.calls()).length, 3)
  })

  it('lose no try by graceful stops', async () => {
    const id = await library.add('hold.odd')
    for (let stops = 1; stops <= 4; stops++) {
      await reader.isAsked('hold.odd', stops)
      assert.equal(await gateway.stop(), 0)
      await start()
    }
    await reader.isAsked('hold.odd', 5)
    await reader.release()
    assert.equal((await library.settled(id)).status, 'ready')
  })

  it('lose no try when an administrator restarts the plugin', async () => {
    const id = await library.add('hold.odd')
    for (let times = 1; times <= 4; times++) {
      await reader.isAsked('hold.odd', times)
      assert.equal((await gateway.call('POST', '/plugins/reader/restart', { token })).status, 200)
    }
    await reader.isAsked('hold.odd', 5)
    await reader.release()
    assert.equal((await library.settled(id)).status, 'ready')
  })

  it('wait for a plugin that is stopped, and say so', async () => {
    await gateway.call('POST', '/plugins/reader/stop', { token })
    const id = await library.add('later.odd', 'kept')
    const waiting = await waitFor('what it waits for', async () => {
      const document = await library.get(id)
      return document.waitsFor === undefined ? undefined : document
    })
    assert.deepEqual([waiting.status, waiting.waitsFor, waiting.reason], ['extracting', 'the plugin reader, which does not run', undefined])
    await gateway.call('POST', '/plugins/reader/restart', { token })
    const ready = await library.settled(id)
    assert.deepEqual([ready.text, ready.waitsFor], ['1.0.0 read kept', undefined])
  })

  it('cost a plugin one crash and are put aside, until another version comes; the others are read', async () => {
    const bad = await library.add('crash.odd')
    const good = await Promise.all(['a.odd', 'b.odd', 'c.odd'].map(name => library.add(name)))
    const { status, reason, text, extractor } = await library.settled(bad)
    assert.deepEqual([status, text, extractor], ['failed', null, 'reader'])
    assert.match(reason ?? '', /the plugin reader 1\.0\.0 crashed while it read this document/)
    for (const id of good) assert.equal((await library.settled(id)).status, 'ready')
    assert.equal(await restarts(), 1)
    assert.equal((await gateway.call('POST', '/plugins/reader/restart', { token })).status, 200)
    assert.equal((await library.read('d.odd')).status, 'ready')
    assert.equal((await reader.calls()).filter(name => name === 'crash.odd').length, 1)
    await reader.install('1.0.1')
    await gateway.call('POST', '/plugins/scan', { token })
    await reader.isAsked('crash.odd', 2)
    await waitFor('the new reason', async () => (await library.get(bad)).reason?.includes('1.0.1'))
  })

  it('that are deleted meanwhile are gone for good', async () => {
    const id = await library.add('hold.odd')
    await reader.isAsked('hold.odd')
    assert.equal((await library.remove(id)).status, 204)
    await reader.release()
    assert.equal((await library.read('next.odd')).status, 'ready')
    assert.equal((await gateway.call('GET', `/documents/${id}`, { token })).status, 404)
    assert.ok(!(await readdir(join(dataDir, 'documents'))).includes(id))
    gateway.kill('SIGKILL')
    await gateway.exited
    await start()
    await pluginIs('ready')
    assert.equal((await library.read('after.odd')).status, 'ready')
    assert.deepEqual(await reader.calls(), ['hold.odd', 'next.odd', 'after.odd'])
  })
})
