import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { LaunchRequest } from '../../core/host/launch/tier.js'
import { unconfined } from '../../core/host/launch/unconfined.js'
import { waitFor } from '../support/waitFor.js'
import { noBubblewrap, noDeno, skipped } from './sandboxes.js'
import { hasBubblewrap, pidsWith, startHost, type TestHost } from './support.js'

const tiersHere = [
  ...(hasBubblewrap ? (['bubblewrap'] as const) : []),
  ...(noDeno === undefined ? (['deno'] as const) : []),
  'node-permission' as const,
]

describe('a sandbox', () => {
  let host: TestHost | undefined
  afterEach(() => host?.stop())

  it('below the minimum starts nothing and says what to do', async () => {
    host = await startHost({ tiers: ['node-permission'], settings: { minimumTier: 'bubblewrap' } })
    await host.add('guarded')
    const failed = await host.until('guarded', 'failed')
    assert.match(failed.lastError ?? '', /node-permission is below Service:Plugins:Sandbox:Minimum/)
  })

  it('below a minimum that is lowered takes it up at the next scan', async () => {
    host = await startHost({ tiers: ['node-permission'], settings: { minimumTier: 'bubblewrap' } })
    await host.add('guarded')
    await host.until('guarded', 'failed')
    host.settings.minimumTier = 'node-permission'
    await host.core.scan()
    await host.until('guarded', 'ready')
  })

  it('counts the memory of a child in a session of its own (skipped without bubblewrap)', async function () {
    if (!hasBubblewrap) this.skip()
    host = await startHost({ tiers: ['bubblewrap'] })
    await host.add('hoarder')
    await host.until('hoarder', 'ready')
    assert.equal((await host.attempt('hoarder', 'hoard-apart', { bytes: 300 * 1024 * 1024 })).allowed, true)
    await waitFor('its end', () => host!.core.supervisor('hoarder')!.lastError?.includes('of memory, more than 256 MiB'))
  })

  it('counts files that are deleted while they are open, and files of memory (the latter skipped without bubblewrap)', async () => {
    for (const tier of tiersHere) {
      host = await startHost({ tiers: [tier], limits: { maxStoredBytes: 32 * 1024 * 1024 } })
      await host.add('holder')
      const holder = await host.until('holder', 'ready')
      // It may be ended before it has answered.
      await host.attempt('holder', 'hold-deleted', { bytes: 48 * 1024 * 1024 }).catch((error: unknown) => error)
      await waitFor(`its end in ${tier}`, () => holder.lastError?.includes('it stored more than 32 MiB and was ended'))
      await host.stop()
    }
    if (!hasBubblewrap || process.arch !== 'x64') return
    host = await startHost({ tiers: ['bubblewrap'], limits: { maxResidentBytes: 128 * 1024 * 1024 } })
    await host.add('holder')
    const holder = await host.until('holder', 'ready')
    assert.equal((await host.attempt('holder', 'hold-memory-file', { bytes: 160 * 1024 * 1024 })).allowed, true)
    await waitFor('its end', () => holder.lastError?.includes('of memory, more than 128 MiB'))
  })

  it('holds a plugin to a number of files, whatever their size, while others are looked at', async () => {
    host = await startHost({ limits: { maxStoredEntries: 500 } })
    await host.add('scatterer')
    await host.add('bystander')
    const scatterer = await host.until('scatterer', 'ready')
    const bystander = await host.until('bystander', 'ready')
    // It may be ended before it has answered.
    await host.attempt('scatterer', 'many-files', { count: 600 }).catch((error: unknown) => error)
    await waitFor('its end', () => scatterer.lastError?.includes('it stored more than 500 files and was ended'))
    await waitFor('the look at the other', () => bystander.storedBytes !== undefined)
    assert.equal(bystander.state, 'ready')
  })

  it('gives no more room than the administrator does, whatever the manifest asks for, and takes a change up', async () => {
    host = await startHost({ settings: { maxDataDirectoryMb: 8 } })
    await host.add('greedy', 'behave', { permissions: { dataDirectoryMb: 1_000_000 } })
    await host.add('modest', 'behave', { permissions: { dataDirectoryMb: 4 } })
    const greedy = await host.until('greedy', 'ready')
    const modest = await host.until('modest', 'ready')
    assert.deepEqual(greedy.storageAllowance.cut, { asked: 1_000_000, given: 8 })
    assert.equal(modest.storageAllowance.cut, undefined)
    assert.equal(modest.storageAllowance.bytes, 4 * 1024 * 1024)
    const { dataDir } = host
    await writeFile(join(dataDir, 'plugin-data', 'greedy', 'large'), Buffer.alloc(12 * 1024 * 1024))
    await waitFor('its end', () =>
      greedy.lastError?.includes('more than 8 MiB and was ended: clear its data directory, or raise Service:Plugins'),
    )
    host.settings.maxDataDirectoryMb = 64
    await host.core.restart(greedy)
    await waitFor('a look', () => (greedy.storedBytes ?? 0) >= 12 * 1024 * 1024)
    assert.equal(greedy.storageAllowance.bytes, 64 * 1024 * 1024)
  })

  it('hides a data directory that lies below the directories of the system (skipped without bubblewrap, or not as root)', async function () {
    if (!hasBubblewrap || process.getuid?.() !== 0) this.skip()
    const dataDir = await mkdtemp('/usr/local/host-test-')
    host = await startHost({ tiers: ['bubblewrap'], dataDir })
    await writeFile(join(dataDir, 'vault.key'), 'the key')
    await host.add('prisoner')
    await host.until('prisoner', 'ready')
    assert.equal((await host.attempt('prisoner', 'read-outside', { path: join(dataDir, 'vault.key') })).allowed, false)
    assert.equal((await host.attempt('prisoner', 'write-data')).allowed, true)
  })

  it('holds the heap to what the plugin may have, in every tier', async () => {
    for (const tier of tiersHere) {
      host = await startHost({ tiers: [tier] })
      await host.add('full')
      const { current } = await host.until('full', 'ready')
      assert.ok(current!.launch.enforced.includes('heap size'))
      const { value } = await host.attempt('full', 'heap-limit')
      assert.ok((value as number) < 300 * 1024 * 1024, `${tier}: ${String(value)}`)
      await host.stop()
    }
  })

  it('that cannot hold another language than JavaScript starts such a plugin only when it is allowed by name', async function () {
    host = await startHost({ tiers: ['node-permission', 'none'] })
    const directory = await host.add('foreign')
    const { rename } = await import('node:fs/promises')
    await host.core.stop()
    await rename(join(directory, 'foreign.mjs'), join(directory, 'program.mjs'))
    await writeFile(join(directory, 'program.runtimeconfig.json'), JSON.stringify({ command: ['node', 'program.mjs'] }))
    const { dataDir } = host
    host = await startHost({ tiers: ['node-permission', 'none'], dataDir })
    const failed = await host.until('foreign', 'failed')
    assert.match(failed.lastError ?? '', /can confine JavaScript only.*AllowUnconfined/)
    host.settings.allowUnconfined = ['Foreign']
    await host.core.restart(failed)
    assert.equal(failed.state, 'ready')
    assert.equal(failed.current!.tier, 'none')
    assert.match(failed.current!.launch.open.join(), /files of this user/)
  })
})

const everyTier: readonly { tiers: string; missing: string | undefined }[] = [
  { tiers: 'bubblewrap', missing: noBubblewrap },
  { tiers: 'bubblewrap,deno', missing: noBubblewrap ?? noDeno },
  { tiers: 'deno', missing: noDeno },
  { tiers: 'node-permission', missing: undefined },
  { tiers: 'none', missing: undefined },
]

describe('when the gateway is killed', () => {
  const killed = async (tiers: string, modes: string): Promise<{ dataDir: string; plugins: number[] }> => {
    const program = fileURLToPath(new URL('hostProgram.ts', import.meta.url))
    const child = spawn(process.execPath, ['--import', 'tsx', program, tiers, modes], { stdio: ['ignore', 'pipe', 'inherit'] })
    let output = ''
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    await waitFor('the plugin to run', () => output.includes('ready'), 60_000)
    const dataDir = /^data (.*)$/m.exec(output)![1]!
    const plugins = await treeOf(child.pid!)
    assert.ok(plugins.length > 0)
    child.kill('SIGKILL')
    return { dataDir, plugins }
  }
  /** 2 s, or more where this machine is so busy by now that one start of Node takes more than a twentieth of that. */
  const goneWithinMs = (): number => {
    const started = performance.now()
    spawnSync(process.execPath, ['-e', '0'])
    return Math.max(2_000, 20 * (performance.now() - started))
  }
  // One that has ended and that the system's first process has yet to reap counts as gone.
  const left = (pids: readonly number[]): number[] => pids.filter(pid => /^State:\t[^Z]/m.test(statusOf(pid)))

  for (const { tiers, missing } of everyTier)
    it(`its plugins are gone within 2 s, also one that spins or ignores the end of its input: ${tiers}${skipped(missing)}`, async function () {
      if (missing !== undefined || process.platform !== 'linux') this.skip()
      const { dataDir, plugins } = await killed(tiers, 'behave,ignore-eof,busy-loop')
      assert.ok(plugins.length >= 3)
      await waitFor('the plugins to be gone', () => left(plugins).length === 0, goneWithinMs())
      assert.deepEqual(await pidsWith(dataDir), [])
      await rm(dataDir, { recursive: true, force: true })
    })

  it(`what a plugin has started is gone within 2 s, too${skipped(noBubblewrap)}`, async function () {
    if (noBubblewrap !== undefined) this.skip()
    const { dataDir, plugins } = await killed('bubblewrap', 'fork-grandchild')
    await waitFor('all of it to be gone', () => left(plugins).length === 0, goneWithinMs())
    await rm(dataDir, { recursive: true, force: true })
  })

  it('what a plugin without a sandbox has started may run on, as published', async function () {
    if (process.platform !== 'linux') this.skip()
    const { dataDir, plugins } = await killed('none', 'fork-grandchild')
    const running = await waitFor('the plugin to be gone', async () => {
      const pids = left(plugins)
      const names = await Promise.all(pids.map(pid => readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')))
      return names.every(name => name === 'sleep\n') ? pids : undefined
    })
    for (const pid of running) process.kill(pid, 'SIGKILL')
    assert.ok(unconfined.prepare(launchable(dataDir)).open.some(line => /what it has started may run on/.test(line)))
    await rm(dataDir, { recursive: true, force: true })
  })
})

const launchable = (directory: string): LaunchRequest => ({
  ...{ directory, dataDir: directory, exchangeDir: directory, hidden: [], ownDir: directory, maxHeapMb: 64 },
  ...{ entry: { kind: 'javascript', file: 'x.mjs', command: [] }, network: { kind: 'none' } },
})

/** As `/proc` has it; empty when there is no such process. */
const statusOf = (pid: number): string => {
  try {
    return readFileSync(`/proc/${pid}/status`, 'utf8')
  } catch {
    return ''
  }
}

/** Everything that descends from a process, as the system sees it. */
const treeOf = async (root: number): Promise<number[]> => {
  const children = (await readFile(`/proc/${root}/task/${root}/children`, 'utf8').catch(() => '')).split(' ').filter(Boolean).map(Number)
  const below = await Promise.all(children.map(treeOf))
  return [...children, ...below.flat()]
}
