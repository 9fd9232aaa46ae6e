import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitFor } from '../support/waitFor.js'
import { hasBubblewrap, hasDeno, pidsWith, startHost, type TestHost } from './support.js'

const tiersHere = [...(hasBubblewrap ? (['bubblewrap'] as const) : []), ...(hasDeno ? (['deno'] as const) : []), 'node-permission' as const]

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
