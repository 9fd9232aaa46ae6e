import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { join } from 'node:path'
import { RpcError } from '../../sdk/rpc.js'
import { waitFor } from '../support/waitFor.js'
import { addPlugin, pidsWith, quickPings, startHost, type TestHost } from './support.js'

describe('a supervised plugin', () => {
  let host: TestHost
  beforeEach(async () => {
    host = await startHost({ tiers: ['node-permission'] })
  })
  afterEach(() => host.stop())

  const closed = (error: unknown): boolean => error instanceof RpcError && error.retryable

  it('is found while the gateway runs, started, and called', async () => {
    await host.add('fine')
    const { current } = await host.until('fine', 'ready')
    assert.ok(current!.process.pid > 0)
    assert.equal(await host.extract('fine', { name: 'hello' }), 'v1 read hello')
  })

  it('waits for its turn as discovered: few start at once, and all of them do', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], begin: false })
    const names = ['one', 'two', 'three', 'four', 'five', 'six']
    for (const name of names) await host.add(name, 'slow-start')
    const { core } = host
    const inState = (wanted: string): number => core.supervisors.filter(({ state }) => state === wanted).length
    let [atOnce, waiting] = [0, 0]
    const begun = core.start()
    await waitFor('all of them', async () => {
      atOnce = Math.max(atOnce, inState('starting'))
      waiting = Math.max(waiting, inState('discovered'))
      await new Promise(resolve => setImmediate(resolve))
      return inState('ready') === names.length
    })
    await begun
    assert.equal(atOnce, 3)
    assert.ok(waiting >= 3)
  })

  it('that ends before its handshake is tried again, then given up, with its last words', async () => {
    await host.add('early', 'exit-before-handshake')
    const failed = await host.until('early', 'failed')
    assert.match(failed.lastError ?? '', /ended before the handshake \(code 3\).*cannot go on/)
    assert.match(failed.reason ?? '', /failed 5 times/)
    await assert.rejects(host.extract('early'), closed)
  })

  it('that crashes again and again is given up, until an administrator restarts it', async () => {
    const directory = await host.add('loop', 'crash-loop')
    const failed = await host.until('loop', 'failed')
    assert.equal(failed.restarts, 4)
    await addPlugin(directory, 'loop', 'behave')
    await host.until('loop', 'ready')
    assert.equal(await host.extract('loop', { name: 'a' }), 'v1 read a')
  })

  it('that chooses a version nobody speaks is refused with both, and not tried again', async () => {
    await host.add('old', 'bad-version')
    const failed = await host.until('old', 'failed')
    assert.match(failed.reason ?? '', /chose the protocol version 1999-01-01, but this gateway speaks 20/)
    assert.equal(failed.restarts, 0)
    await host.core.scan()
    assert.equal(failed.state, 'failed')
  })

  it('that refuses the version for good is not tried again, until it is a new one; a running version is left alone by such a one', async () => {
    const directory = await host.add('elder', 'refuse-version')
    const failed = await host.until('elder', 'failed')
    assert.match(failed.reason ?? '', /it refused the handshake: No common protocol version: I am from 1999/)
    assert.equal(failed.restarts, 0)
    await host.core.scan()
    assert.deepEqual([failed.state, failed.restarts], ['failed', 0])
    await addPlugin(directory, 'elder', 'behave', { version: '2.0.0' })
    const { current } = await host.until('elder', 'ready')
    await addPlugin(directory, 'elder', 'refuse-version', { version: '3.0.0' })
    await waitFor('the complaint', () => /version 3\.0\.0 could not replace .*from 1999/.test(failed.lastError ?? ''))
    await host.until('elder', 'ready')
    assert.equal(failed.current, current)
  })

  it('that ends right after its answers loses none of them', async () => {
    await host.add('hasty', 'answer-and-exit')
    const text = 'x'.repeat(60_000)
    for (let round = 0; round < 4; round++) {
      const supervisor = await host.until('hasty', 'ready')
      assert.equal(await host.extract('hasty', { name: text }), `v1 read ${text}`)
      await waitFor('its end', () => supervisor.restarts > round || supervisor.state !== 'ready')
    }
  })

  it('that never shakes hands is ended in time', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: { handshake: 400 } })
    await host.add('silent', 'never-ready')
    await waitFor('the refusal', () => host.core.supervisor('silent')?.lastError?.includes('did not answer the handshake in time'))
    await host.until('silent', 'failed')
    await waitFor('no process of it', async () => (await pidsWith(join(host.dataDir, 'plugin-versions', 'silent'))).length === 0)
  })

  it('that crashes in a call fails that call at once, retryably, and is started again', async () => {
    await host.add('fragile', 'crash-on-call')
    await host.until('fragile', 'ready')
    await assert.rejects(host.extract('fragile', { timeoutMs: 30_000 }), closed)
    const again = await waitFor('a restart', () =>
      host.core.supervisor('fragile')!.restarts > 0 ? host.core.supervisor('fragile') : undefined,
    )
    await host.until('fragile', 'ready')
    assert.match(again.lastError ?? '', /ended by itself \(code 7\)/)
  })

  it('that answers nothing lets the call time out and stays, since it answers pings', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: { pingAfter: 50, pingTimeout: 20_000 } })
    await host.add('slow', 'hang')
    const { current } = await host.until('slow', 'ready')
    await assert.rejects(host.extract('slow', { timeoutMs: 200 }), /was not answered within 200 ms/)
    assert.equal(host.core.supervisor('slow')!.current, current)
  })

  it('that spins is found by its missed pings and restarted', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: quickPings })
    await host.add('busy', 'busy-loop')
    const { current } = await host.until('busy', 'ready')
    await assert.rejects(host.extract('busy', { timeoutMs: 20_000 }), closed)
    await waitFor('its end', () => current!.process.ended)
    assert.match(host.core.supervisor('busy')!.lastError ?? '', /did not answer 3 pings/)
    await host.until('busy', 'ready')
  })

  it('may write stray lines, floods, halves of frames, late and double replies, and serves on', async () => {
    for (const mode of ['stdout-noise', 'stderr-flood', 'stderr-line', 'late-reply', 'duplicate-reply']) {
      await host.add(mode, mode)
      await host.until(mode, 'ready')
      assert.equal(await host.extract(mode, { name: 'a' }), 'v1 read a', mode)
      assert.equal(await host.extract(mode, { name: 'b' }), 'v1 read b', mode)
    }
    assert.ok(host.core.supervisor('stderr-flood')!.outputTail.length <= 200)
    assert.ok(host.logged().split('\n').length < 1000, 'the flood reached the log')
    assert.ok(host.core.supervisors.every(({ outputTail }) => outputTail.every(line => line.length <= 2_000)))
    assert.ok(host.logged().length < 500_000, 'the long line reached the log')
    assert.ok(host.core.supervisor('stdout-noise')!.outputTail.some(line => line.includes('stray console.log')))
  })

  it('that breaks off in a frame, or sends one too large, is ended and started again', async () => {
    for (const mode of ['partial-frame', 'huge-frame']) {
      await host.add(mode, mode)
      await host.until(mode, 'ready')
      await assert.rejects(host.extract(mode, { timeoutMs: 20_000 }), closed, mode)
      await waitFor('a restart', () => host.core.supervisor(mode)!.restarts > 0)
    }
  })

  it('that never reads is noticed, and what waits for it is bounded', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: quickPings })
    await host.add('deaf', 'no-read-stdin')
    const { current } = await host.until('deaf', 'ready')
    const big = 'x'.repeat(1024 * 1024)
    const calls = await Promise.allSettled(Array.from({ length: 120 }, () => host.extract('deaf', { name: big, timeoutMs: 2_000 })))
    assert.ok(calls.every(({ status }) => status === 'rejected'))
    await waitFor('its end', () => current!.process.ended)
  })

  it('that takes too much memory outside the heap is ended', async () => {
    await host.add('greedy', 'buffer-oom')
    await host.until('greedy', 'ready')
    await assert.rejects(async () => {
      await host.extract('greedy', { timeoutMs: 20_000 })
      await waitFor('its end', () => host.core.supervisor('greedy')!.restarts > 0)
      throw new RpcError(-32003, 'ended later')
    })
    await waitFor('the reason', () => host.core.supervisor('greedy')!.lastError?.includes('of memory, more than 256 MiB'))
  })

  it('that exhausts its heap, its file descriptors or its share of the disk hurts itself alone, and is told apart', async () => {
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: { maxStoredBytes: 32 * 1024 * 1024 } })
    await host.add('bystander')
    await host.until('bystander', 'ready')
    for (const mode of ['heap-oom', 'fd-leak', 'disk-fill']) {
      await host.add(mode, mode)
      await host.until(mode, 'ready')
    }
    const fills = host.extract('disk-fill', { timeoutMs: 20_000 }).catch((error: unknown) => error)
    assert.equal(await host.extract('fd-leak', { timeoutMs: 20_000 }), 'EMFILE')
    await assert.rejects(host.extract('heap-oom', { timeoutMs: 30_000 }), closed)
    await fills
    const saysOf = (id: string, text: RegExp) =>
      waitFor(`${id}: ${String(text)}`, () => text.test(host.core.supervisor(id)!.lastError ?? ''))
    // The limit of its heap, or that of its memory as a whole, whichever is noticed first.
    await saysOf('heap-oom', /it ended by itself|MiB of memory/)
    await saysOf('disk-fill', /it stored more than 32 MiB and was ended: clear its data directory/)
    assert.equal(await host.extract('bystander', { name: 'a' }), 'v1 read a')
  })

  it('stays stopped when an administrator stopped it, over scans and restarts of the gateway', async () => {
    await host.add('resting')
    const supervisor = await host.until('resting', 'ready')
    await host.core.stopPlugin(supervisor)
    assert.equal(supervisor.state, 'stopped')
    await host.core.scan()
    assert.equal(host.core.supervisor('resting')!.state, 'stopped')
    assert.ok(host.stopped.has('resting'))
    await host.core.restart(supervisor)
    assert.equal(supervisor.state, 'ready')
    assert.ok(!host.stopped.has('resting'))
  })

  it('is stopped by force when it ignores requests, the end of its input and SIGTERM', async () => {
    await host.add('stubborn', 'ignore-sigterm')
    const supervisor = await host.until('stubborn', 'ready')
    const { process } = supervisor.current!
    await host.core.stopPlugin(supervisor)
    assert.equal((await process.exited).signal, 'SIGKILL')
    await host.stop()
    host = await startHost({ tiers: ['node-permission'], limits: { terminate: 25_000 } })
    await host.add('deafened', 'ignore-eof')
    const second = await host.until('deafened', 'ready')
    const other = second.current!.process
    await host.core.stopPlugin(second)
    assert.equal((await other.exited).signal, 'SIGTERM')
  })

  it('is stopped when its files are gone, switched off or not allowed', async () => {
    const directory = await host.add('leaving')
    await host.add('staying')
    await host.until('leaving', 'ready')
    await host.until('staying', 'ready')
    host.settings.allowlist = ['STAYING']
    await host.core.scan()
    await host.until('leaving', 'disabled')
    assert.equal(host.core.supervisor('staying')!.state, 'ready')
    host.settings.allowlist = []
    await host.core.scan()
    await host.until('leaving', 'ready')
    host.settings.enabled = false
    await host.core.scan()
    await host.until('staying', 'disabled')
    host.settings.enabled = true
    await rm(directory, { recursive: true })
    await host.core.scan()
    assert.equal(host.core.supervisor('leaving'), undefined)
    await host.until('staying', 'ready')
  })
})
