import assert from 'node:assert/strict'
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { RpcError } from '../../sdk/rpc.js'
import { waitFor } from '../support/waitFor.js'
import { addPlugin, startHost, type TestHost } from './support.js'

/** In a row, with 64 callers all the while. */
const RELOADS = 30

describe('a reload', () => {
  let host: TestHost
  beforeEach(async () => {
    host = await startHost({ tiers: ['node-permission'] })
  })
  afterEach(() => host.stop())

  const version = (directory: string, name: string, number: string, mode = 'behave') =>
    addPlugin(directory, name, mode, { version: number, metadata: { version: number } })

  it('under load fails no call, and every later call meets the new version', async () => {
    const directory = join(host.plugins, 'swift')
    await version(directory, 'swift', '1.0.0')
    await host.until('swift', 'ready')
    let going = true
    let calls = 0
    const callers = Array.from({ length: 64 }, async (_, caller) => {
      while (going) {
        const name = `${caller}-${calls++}`
        const text = await host.extract('swift', { name })
        assert.ok(text.endsWith(` read ${name}`), text)
      }
    })
    for (let reload = 1; reload <= RELOADS; reload++) {
      const next = `1.0.${reload}`
      await version(directory, 'swift', next)
      await waitFor(next, () => host.core.supervisor('swift')!.current?.candidate.manifest.version === next)
      assert.equal(await host.extract('swift', { name: 'x' }), `${next} read x`)
    }
    going = false
    await Promise.all(callers)
    assert.equal(host.core.supervisor('swift')!.latency.errors, 0)
    assert.equal(host.core.supervisor('swift')!.restarts, 0)
  })

  it('during a reload ends with the newest version, and fails no call', async () => {
    const directory = join(host.plugins, 'hasty')
    await version(directory, 'hasty', '1.0.0')
    await host.until('hasty', 'ready')
    const end = new AbortController()
    const caller = (async () => {
      do assert.match(await host.extract('hasty', { name: 'x' }), / read x$/)
      while (!end.signal.aborted)
    })()
    await version(directory, 'hasty', '2.0.0', 'slow-start')
    await waitFor('the first reload', () => host.core.supervisor('hasty')!.reason?.includes('version 2.0.0 is starting'))
    await version(directory, 'hasty', '3.0.0')
    await waitFor('the newest', () => host.core.supervisor('hasty')!.current?.candidate.manifest.version === '3.0.0')
    end.abort()
    await caller
    assert.equal(host.core.supervisor('hasty')!.latency.errors, 0)
  })

  it('to a version that never gets ready leaves the old one serving', async () => {
    await host.stop()
    // The version that serves has to be in time, too, on a busy machine.
    host = await startHost({ tiers: ['node-permission'], limits: { handshake: 5_000 } })
    const directory = join(host.plugins, 'patient')
    await version(directory, 'patient', '1.0.0')
    const { current } = await host.until('patient', 'ready')
    await version(directory, 'patient', '2.0.0', 'never-ready')
    await waitFor('the complaint', () => host.core.supervisor('patient')!.lastError?.includes('did not answer the handshake in time'))
    await host.until('patient', 'ready')
    assert.equal(host.core.supervisor('patient')!.current, current)
    assert.equal(await host.extract('patient', { name: 'x' }), '1.0.0 read x')
  })

  it('to a version that crashes just after it took over goes back to the one before, without its files', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: { probation: 60_000 } })
    const directory = join(host.plugins, 'proven')
    await version(directory, 'proven', '1.0.0')
    await host.until('proven', 'ready')
    await version(directory, 'proven', '2.0.0', 'crash-soon')
    const supervisor = await waitFor('the return', () => {
      const found = host.core.supervisor('proven')!
      return found.lastError?.includes('version 1.0.0 serves again') && found.state === 'ready' ? found : undefined
    })
    assert.equal(supervisor.current!.candidate.manifest.version, '1.0.0')
    assert.equal(await host.extract('proven', { name: 'x' }), '1.0.0 read x')
    await host.core.scan()
    assert.equal(supervisor.current!.candidate.manifest.version, '1.0.0')
    await version(directory, 'proven', '2.0.1')
    await waitFor('the mended one', () => supervisor.current?.candidate.manifest.version === '2.0.1')
  })

  it('that was refused does not keep a plugin that was switched off from starting again', async () => {
    const directory = join(host.plugins, 'switched')
    await version(directory, 'switched', '1.0.0')
    await host.until('switched', 'ready')
    let refuses = true
    host.core.hooks.onHandover(() => (refuses ? Promise.reject(new Error('not now')) : Promise.resolve()))
    await version(directory, 'switched', '2.0.0')
    await waitFor('the complaint', () => host.core.supervisor('switched')!.lastError?.includes('not now'))
    refuses = false
    host.settings.enabled = false
    await host.core.scan()
    await host.until('switched', 'disabled')
    host.settings.enabled = true
    await host.core.scan()
    const supervisor = await host.until('switched', 'ready')
    assert.equal(supervisor.current?.candidate.manifest.version, '2.0.0')
  })

  it('is tried again when an administrator asks for it', async () => {
    const directory = join(host.plugins, 'stubborn')
    await version(directory, 'stubborn', '1.0.0')
    const { current } = await host.until('stubborn', 'ready')
    let refuses = true
    host.core.hooks.onHandover(() => (refuses ? Promise.reject(new Error('not now')) : Promise.resolve()))
    await version(directory, 'stubborn', '2.0.0')
    const supervisor = await waitFor('the complaint', () => {
      const found = host.core.supervisor('stubborn')!
      return found.lastError?.includes('not now') ? found : undefined
    })
    assert.equal(supervisor.current, current)
    refuses = false
    await host.core.restart(supervisor)
    assert.equal(supervisor.current?.candidate.manifest.version, '2.0.0')
    assert.equal(supervisor.lastError, undefined)
  })

  it('from a version whose calls never end serves with the new one at once, and ends the old one in the end', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: { drain: 500 } })
    const directory = join(host.plugins, 'endless')
    await version(directory, 'endless', '1.0.0', 'hang')
    const { current } = await host.until('endless', 'ready')
    const hanging = host.extract('endless', { timeoutMs: 60_000 }).then(
      () => undefined,
      (error: unknown) => error,
    )
    await version(directory, 'endless', '2.0.0')
    await waitFor('the new one', () => host.core.supervisor('endless')!.current?.candidate.manifest.version === '2.0.0')
    assert.equal(await host.extract('endless', { name: 'x' }), '2.0.0 read x')
    const error = await hanging
    assert.ok(error instanceof RpcError && error.retryable, String(error))
    await waitFor('its end', () => current!.process.ended)
  })

  it('to a version that fails leaves the old one serving and says why', async () => {
    const directory = join(host.plugins, 'careful')
    await version(directory, 'careful', '1.0.0')
    const { current } = await host.until('careful', 'ready')
    await version(directory, 'careful', '2.0.0', 'exit-before-handshake')
    await waitFor('the complaint', () =>
      host.core.supervisor('careful')!.lastError?.includes('version 2.0.0 could not replace the running one'),
    )
    await writeFile(join(directory, 'manifest.json'), '{ "name": "careful", ')
    await waitFor('the next complaint', () => host.core.supervisor('careful')!.lastError?.includes('not valid JSON'))
    assert.equal(host.core.supervisor('careful')!.current, current)
    assert.equal(await host.extract('careful', { name: 'x' }), '1.0.0 read x')
    await version(directory, 'careful', '2.0.1')
    await waitFor('the good one', () => host.core.supervisor('careful')!.current?.candidate.manifest.version === '2.0.1')
    assert.equal(host.core.supervisor('careful')!.lastError, undefined)
  })

  it('that an area refuses keeps the old process', async () => {
    const directory = join(host.plugins, 'wanted')
    await version(directory, 'wanted', '1.0.0')
    const { current } = await host.until('wanted', 'ready')
    const undo = host.core.hooks.onHandover((_id, next, old) => {
      assert.equal(old, current!.process)
      assert.notEqual(next, old)
      return Promise.reject(new Error('the channels cannot move'))
    })
    await version(directory, 'wanted', '2.0.0')
    await waitFor('the complaint', () => host.core.supervisor('wanted')!.lastError?.includes('the channels cannot move'))
    undo()
    assert.equal(host.core.supervisor('wanted')!.current, current)
    assert.ok(!current!.process.ended)
  })

  it('keeps one staged copy a plugin', async () => {
    const directory = join(host.plugins, 'tidy')
    for (const next of ['1.0.0', '1.0.1', '1.0.2']) {
      await version(directory, 'tidy', next)
      await waitFor(next, () => host.core.supervisor('tidy')?.current?.candidate.manifest.version === next)
    }
    const { readdir } = await import('node:fs/promises')
    await waitFor('one copy', async () => (await readdir(join(host.dataDir, 'plugin-versions', 'tidy'))).length === 1)
    assert.match(await readFile(join(host.core.supervisor('tidy')!.current!.directory, 'manifest.json'), 'utf8'), /1\.0\.2/)
  })
})
