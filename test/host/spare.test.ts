import assert from 'node:assert/strict'
import { join } from 'node:path'
import type { Supervisor } from '../../core/host/supervisor.js'
import { waitFor } from '../support/waitFor.js'
import { addPlugin, pidsWith, startHost, type TestHost } from './support.js'

const hasEnded = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return false
  } catch {
    return true
  }
}

describe('a spare process of a plugin', () => {
  let host: TestHost
  afterEach(() => host.stop())

  const begin = (limits: Parameters<typeof startHost>[0] = {}): Promise<TestHost> =>
    startHost({ tiers: ['node-permission'], ...limits, settings: { warmSpares: ['Twin'], ...limits.settings } })

  const spareOf = (supervisor: Supervisor, other?: number): Promise<number> =>
    waitFor('a spare', () => {
      const pid = supervisor.spare.process?.pid
      return pid === other ? undefined : pid
    })

  it('is kept for none but the plugins that are named', async () => {
    host = await begin()
    await host.add('twin')
    await host.add('single')
    const twin = await host.until('twin', 'ready')
    const single = await host.until('single', 'ready')
    assert.notEqual(await spareOf(twin), twin.current!.process.pid)
    assert.equal(single.spare.process, undefined)
  })

  it('takes over when the process is killed, long before a start could; the crash counts', async () => {
    // So long that whoever waited for a start would wait in vain.
    host = await begin({ limits: { backoffBase: 600_000, backoffMax: 600_000 } })
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const spare = await spareOf(twin)
    process.kill(-twin.current!.process.pid, 'SIGKILL')
    await waitFor('the spare to serve', () => twin.state === 'ready' && twin.current?.process.pid === spare)
    assert.equal(twin.restarts, 1)
    assert.match(twin.lastError ?? '', /it ended by itself \(SIGKILL\)/)
    assert.equal(await host.extract('twin', { name: 'a' }), 'v1 read a')
    assert.equal(twin.spare.process, undefined)
  })

  it('that took over is followed by another, which waits as long as the plugin would have', async () => {
    host = await begin({ limits: { backoffBase: 1_000, backoffMax: 1_000 } })
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const spare = await spareOf(twin)
    const killed = performance.now()
    process.kill(-twin.current!.process.pid, 'SIGKILL')
    await waitFor('the spare to serve', () => twin.state === 'ready' && twin.current?.process.pid === spare)
    assert.notEqual(await spareOf(twin), spare)
    // A quarter less at most, so that restarts do not fall together.
    assert.ok(performance.now() - killed >= 740)
  })

  it('does not keep a plugin going that crashes again and again', async () => {
    host = await begin({ limits: { backoffBase: 1, backoffMax: 1 } })
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    for (let crash = 1; crash <= 5; crash++) {
      await spareOf(twin)
      const { pid } = twin.current!.process
      process.kill(-pid, 'SIGKILL')
      await waitFor(
        'the crash to be noticed',
        () => twin.state === 'failed' || (twin.state === 'ready' && twin.current?.process.pid !== pid),
      )
      assert.equal(twin.state, crash < 5 ? 'ready' : 'failed')
    }
    assert.match(twin.reason ?? '', /it failed 5 times within 5 minutes/)
    await waitFor('every process to be gone', async () => (await pidsWith(join(host.dataDir, 'plugin-versions'))).length === 0)
  })

  it('that ends is replaced, and given up when it always does, while the plugin serves on', async () => {
    host = await begin({ limits: { backoffBase: 5, backoffMax: 5 } })
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const serving = twin.current!.process.pid
    let last: number | undefined
    for (let loss = 1; loss <= 5; loss++) {
      last = await waitFor('another spare', () => {
        const pid = twin.spare.process?.pid
        return pid === last ? undefined : pid
      })
      process.kill(-last, 'SIGKILL')
    }
    await waitFor('the end of it', () => host.logged().includes('its spare ended 5 times (SIGKILL): none is kept'))
    await host.core.scan()
    assert.deepEqual([twin.state, twin.restarts, twin.current?.process.pid, twin.spare.process], ['ready', 0, serving, undefined])
    assert.equal(await host.extract('twin', { name: 'a' }), 'v1 read a')
  })

  it('that hangs is ended and replaced', async () => {
    host = await begin({ limits: { pingAfter: 50, pingTimeout: 50 } })
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const spare = await spareOf(twin)
    process.kill(spare, 'SIGSTOP')
    await waitFor('its end', () => hasEnded(spare))
    await spareOf(twin, spare)
    assert.equal(twin.restarts, 0)
  })

  it('is one of the new version after a reload', async () => {
    host = await begin({ limits: { probation: 1 } })
    const directory = await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const old = await spareOf(twin)
    await addPlugin(directory, 'twin', 'behave', { version: '2.0.0', metadata: { version: 'v2' } })
    await waitFor('the new version', () => twin.current?.candidate.manifest.version === '2.0.0')
    await waitFor('the old spare to go', () => hasEnded(old))
    const spare = await spareOf(twin)
    process.kill(-twin.current!.process.pid, 'SIGKILL')
    await waitFor('the spare to serve', () => twin.state === 'ready' && twin.current?.process.pid === spare)
    assert.equal(await host.extract('twin', { name: 'a' }), 'v2 read a')
  })

  it('takes over when an administrator restarts the plugin', async () => {
    host = await begin()
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const spare = await spareOf(twin)
    await host.core.restart(twin)
    assert.equal(twin.current?.process.pid, spare)
    await spareOf(twin)
  })

  it('does not take over in a sandbox that would not be chosen any more', async () => {
    host = await begin({ tiers: ['node-permission', 'none'] })
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const spare = await spareOf(twin)
    host.settings.minimumTier = 'bubblewrap'
    await host.core.restart(twin)
    assert.deepEqual([twin.state, twin.current], ['failed', undefined])
    await waitFor('its end', () => hasEnded(spare))
  })

  it('goes when no spare is wanted any more, and with its plugin', async () => {
    host = await begin()
    await host.add('twin')
    const twin = await host.until('twin', 'ready')
    const first = await spareOf(twin)
    host.settings.warmSpares = []
    await host.core.scan()
    await waitFor('its end', () => hasEnded(first))
    assert.equal(twin.spare.process, undefined)
    for (const end of [
      () => host.core.stopPlugin(twin),
      () => {
        host.settings.allowlist = ['another']
        return host.core.scan()
      },
    ]) {
      host.settings.warmSpares = ['twin']
      host.settings.allowlist = []
      await host.core.restart(twin)
      const pid = await spareOf(twin)
      await end()
      await waitFor('its end', () => hasEnded(pid) && twin.spare.process === undefined)
    }
  })

  it('stores for the plugin: what both hold of deleted files counts together', async () => {
    host = await begin({ limits: { maxStoredBytes: 32 * 1024 * 1024 }, settings: { warmSpares: [] } })
    await host.add('twin', 'hold-at-once')
    const twin = await host.until('twin', 'ready')
    await waitFor('a look at what it holds', () => (twin.storedBytes ?? 0) >= 20 * 1024 * 1024)
    assert.deepEqual([twin.state, twin.lastError], ['ready', undefined])
    host.settings.warmSpares = ['twin']
    await host.core.scan()
    await waitFor('its end', () => twin.lastError?.includes('it stored more than 32 MiB and was ended'))
  })

  it('takes no part in what the plugin does, and leaves nothing behind when the gateway stops', async () => {
    host = await begin({ settings: { warmSpares: ['twin'] } })
    host.core.hooks.serve('channel.receive', () => Promise.resolve({ accepted: 1 }))
    const handovers: string[] = []
    host.core.hooks.onHandover((id, next) => {
      handovers.push(`${id} ${next.pid}`)
      return Promise.resolve()
    })
    await host.add('twin', 'receive-at-once')
    const twin = await host.until('twin', 'ready')
    await spareOf(twin)
    await waitFor('both to have asked', () => twin.log.lines().filter(({ text }) => text.startsWith('received')).length === 2)
    const said = twin.log.lines().flatMap(({ text }) => (text.startsWith('received') ? [text] : []))
    assert.match(said.sort().join('\n'), /^received channel\.receive: .*waits in reserve and serves no channel\nreceived \{"accepted":1\}$/)
    assert.deepEqual(handovers, [`twin ${twin.current!.process.pid}`])
    await host.core.stop()
    assert.deepEqual(await pidsWith(join(host.dataDir, 'plugin-versions')), [])
  })
})
