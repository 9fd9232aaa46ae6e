import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, writeFile } from 'node:fs/promises'
import { createServer, type AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitFor } from '../support/waitFor.js'
import { hasBubblewrap, pidsWith, startHost, type TestHost } from './support.js'

for (const tier of ['bubblewrap', 'node-permission'] as const) {
  describe(`in the sandbox tier ${tier}${tier === 'bubblewrap' && !hasBubblewrap ? ' (skipped: bubblewrap is not installed)' : ''}`, function () {
    let host: TestHost
    before(async function () {
      if (tier === 'bubblewrap' && !hasBubblewrap) this.skip()
      process.env.GATEWAY_DATABASE_PASSWORD = 'must-not-be-seen'
      host = await startHost({ tiers: [tier] })
      await host.add('prisoner')
      await host.add('talker', 'behave', { pluginInterface: 'ChannelAdapter', channelType: 'talker' })
      await host.until('prisoner', 'ready')
      await host.until('talker', 'ready')
    })
    after(async () => {
      delete process.env.GATEWAY_DATABASE_PASSWORD
      // eslint-disable-next-line @typescript-eslint/no-unnecessary-condition -- unset when skipped
      await host?.stop()
    })

    const said = (): { enforced: string; open: string } => {
      const { launch } = host.core.supervisor('prisoner')!.current!
      return { enforced: launch.enforced.join('; '), open: launch.open.join('; ') }
    }

    it('says which tier was reached, what it enforces and what it leaves open', () => {
      assert.equal(host.core.supervisor('prisoner')!.current!.tier, tier)
      assert.match(said().enforced, /files outside its own directories/)
      assert.match(said().open, /memory/)
    })

    it('a plugin gets nothing of the environment of the gateway', async () => {
      const env = await host.attempt('prisoner', 'print-env')
      assert.ok(!JSON.stringify(env).includes('must-not-be-seen'))
      assert.ok(Object.keys(env).length <= 8, Object.keys(env).join())
    })

    it('it cannot read outside: the data directory, its neighbour, the system', async () => {
      const secret = join(host.dataDir, 'vault.key')
      await writeFile(secret, 'the key')
      for (const path of [secret, join(host.plugins, 'talker', 'manifest.json'), '/etc/shadow', fileURLToPath(import.meta.url)])
        assert.equal((await host.attempt('prisoner', 'read-outside', { path })).allowed, false, path)
    })

    it('it finds nothing in the environment of the first process that it sees', async () => {
      const { allowed, value } = await host.attempt('prisoner', 'read-outside', { path: '/proc/1/environ' })
      assert.ok(allowed === false || value === '', String(value))
    })

    it('it can write into its own data directory, and nowhere else', async () => {
      assert.equal((await host.attempt('prisoner', 'write-data')).allowed, true)
      assert.ok(existsSync(join(host.dataDir, 'plugin-data', 'prisoner', 'kept')))
      assert.equal((await host.attempt('prisoner', 'write-self')).allowed, false)
      assert.equal((await host.attempt('prisoner', 'write-outside', { path: join(host.dataDir, 'planted') })).allowed, false)
      assert.ok(!existsSync(join(host.dataDir, 'planted')))
    })

    it('it cannot fill memory by way of files', async () => {
      const bytes = 80 * 1024 * 1024
      for (const path of ['/dev/filler', '/dev/shm/filler', '/tmp/filler'])
        assert.equal((await host.attempt('prisoner', 'fill-file', { path, bytes })).allowed, false, path)
    })

    it('it reaches the network exactly as published', async () => {
      const server = createServer(socket => socket.end()).listen(0, '127.0.0.1')
      await waitFor('the port', () => server.listening)
      const { port } = server.address() as AddressInfo
      const extractor = (await host.attempt('prisoner', 'connect-out', { port })).allowed
      const adapter = (await host.attempt('talker', 'connect-out', { port })).allowed
      server.close()
      assert.equal(extractor, !said().enforced.includes('network'))
      assert.equal(extractor, tier === 'node-permission')
      assert.equal(adapter, true)
      assert.match(host.core.supervisor('talker')!.current!.launch.open.join(), /network/)
    })

    it('it starts child processes exactly as published', async () => {
      const { allowed } = await host.attempt('prisoner', 'spawn')
      assert.equal(allowed, said().open.includes('child processes inside its sandbox'))
    })

    it('it signals the gateway exactly as published', async () => {
      // A bystander stands for the gateway: a signal that works would end the tests.
      const bystander = spawn('sleep', ['60'])
      const ended = new Promise<string>(resolve => bystander.once('exit', (_code, signal) => resolve(signal ?? 'code')))
      const { allowed } = await host.attempt('prisoner', 'signal-parent', { pid: bystander.pid })
      assert.equal(allowed, said().open.includes('signals'))
      bystander.kill('SIGKILL')
      assert.equal(await ended, allowed ? 'SIGTERM' : 'SIGKILL')
    })
  })
}

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
      for (const tier of ['bubblewrap', 'node-permission'] as const) {
        if (tier === 'bubblewrap' && !hasBubblewrap) continue
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
