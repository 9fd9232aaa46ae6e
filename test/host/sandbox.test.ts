import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitFor } from '../support/waitFor.js'
import { hasBubblewrap, hasDeno, pidsWith, startHost, type TestHost } from './support.js'

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
    const tiers = [...(hasBubblewrap ? (['bubblewrap'] as const) : []), ...(hasDeno ? (['deno'] as const) : []), 'node-permission'] as const
    for (const tier of tiers) {
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
    await host.attempt('scatterer', 'many-files', { count: 600 })
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

describe('when the gateway is killed', () => {
  for (const mode of ['behave', 'ignore-eof', 'busy-loop'] as const) {
    it(`a plugin in the mode ${mode} is gone within 2 s, in every tier`, async function () {
      for (const tier of ['bubblewrap', 'deno', 'node-permission'] as const) {
        if ((tier === 'bubblewrap' && !hasBubblewrap) || (tier === 'deno' && !hasDeno)) continue
        const program = fileURLToPath(new URL('hostProgram.ts', import.meta.url))
        const child = spawn(process.execPath, ['--import', 'tsx', program, tier, mode], { stdio: ['ignore', 'pipe', 'inherit'] })
        let output = ''
        child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
        await waitFor('the plugin to run', () => output.includes('ready'))
        const dataDir = /^data (.*)$/m.exec(output)![1]!
        assert.ok((await pidsWith(join(dataDir, 'plugin-versions'))).length > 0)
        child.kill('SIGKILL')
        const killed = Date.now()
        await waitFor('the plugin to be gone', async () => (await pidsWith(dataDir)).length === 0, 2_000)
        assert.ok(Date.now() - killed < 2_500)
      }
    })
  }
})
