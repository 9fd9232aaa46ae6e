import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { waitFor } from '../support/waitFor.js'
import { startHost, type TestHost } from './support.js'

const INTERFACES = ['ModelProvider', 'EmbeddingProvider', 'VaultBackend', 'IModelProvider'] as const

describe('a plugin of an interface that nothing uses yet', () => {
  let host: TestHost

  afterEach(() => host.stop())

  const begin = async (experimental = false): Promise<void> => {
    host = await startHost({ tiers: ['node-permission'], settings: { experimental } })
  }
  const warnings = (id: string): string[] =>
    host
      .logged()
      .split('\n')
      .filter(line => line.includes(`plugin ${id}: nothing uses`))
  const run = async (pluginInterface: string, id = pluginInterface.toLowerCase()): Promise<string> => {
    await host.add(id, 'behave', { pluginInterface, supportedExtensions: undefined })
    await host.core.scan()
    await host.until(id, 'ready')
    return id
  }

  for (const pluginInterface of INTERFACES)
    it(`starts, runs, and warns once over restarts and new versions: ${pluginInterface}`, async () => {
      await begin()
      const id = await run(pluginInterface)
      const [warning, ...more] = warnings(id)
      assert.match(warning ?? '', new RegExp(`plugins of the interface ${pluginInterface.replace(/^I/, '')} yet`))
      assert.equal(more.length, 0)
      const supervisor = host.core.supervisor(id)!
      await host.core.request(id, 'plugin.ping', {})
      const first = supervisor.current!.process.pid
      await host.core.restart(supervisor)
      assert.notEqual((await host.until(id, 'ready')).current!.process.pid, first)
      await host.add(id, 'behave', { pluginInterface, supportedExtensions: undefined, version: '2.0.0' })
      await host.core.scan()
      await host.core.scan()
      await waitFor('the new version', () => supervisor.current?.candidate.manifest.version === '2.0.0')
      assert.equal(warnings(id).length, 1)
    })

  it('is supervised like any other: started again after a crash, stopped with the gateway', async () => {
    await begin()
    const id = await run('VaultBackend')
    const { pid } = host.core.supervisor(id)!.current!.process
    process.kill(pid, 'SIGKILL')
    const again = await waitFor('another process', () => {
      const { current, state } = host.core.supervisor(id)!
      return state === 'ready' && current?.process.pid !== pid ? current?.process.pid : undefined
    })
    await host.core.stop()
    assert.throws(() => process.kill(again, 0), { code: 'ESRCH' })
  })

  it('is warned of while Service:Plugins:Experimental is on only when that changes nothing for it', async () => {
    await begin(true)
    for (const pluginInterface of ['ModelProvider', 'EmbeddingProvider'])
      assert.deepEqual(warnings(await run(pluginInterface)), [], pluginInterface)
    assert.equal(warnings(await run('VaultBackend')).length, 1)
  })

  it('is refused when it is a Tool, with a warning, and never starts', async () => {
    await begin()
    const directory = await host.add('tool', 'behave', { pluginInterface: 'Tool', supportedExtensions: undefined })
    await writeFile(join(directory, 'note.txt'), 'changes it')
    await host.core.scan()
    assert.equal(host.core.supervisor('tool'), undefined)
    assert.match(host.core.rejections.find(({ id }) => id === 'tool')?.reason ?? '', /Tool plugins are not taken/)
    assert.match(host.logged(), /plugin tool in .* is rejected/)
  })
})
