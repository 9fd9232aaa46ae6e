import assert from 'node:assert/strict'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { waitFor } from '../support/waitFor.js'
import { startHost, type TestHost } from './support.js'

describe('the liveness of a plugin', () => {
  let host: TestHost
  afterEach(() => host.stop())

  const said = (id: string): string[] =>
    host.core
      .supervisor(id)!
      .log.lines()
      .map(({ text }) => text)

  it('is given as long as it acknowledges: slow is not hung', async () => {
    host = await startHost({ tiers: ['node-permission'], limits: { pingAfter: 200, pingTimeout: 1_500 } })
    await host.add('slow', 'acknowledge-only')
    const { current } = await host.until('slow', 'ready')
    // Twice as many pings without an answer as would end a process that is silent.
    await waitFor('pings', () => said('slow').filter(line => line.startsWith('heard ping')).length >= 6)
    const supervisor = host.core.supervisor('slow')!
    assert.deepEqual([supervisor.state, supervisor.restarts], ['ready', 0], supervisor.lastError)
    assert.equal(supervisor.current?.process.pid, current!.process.pid)
    assert.ok(!said('slow').some(line => line.includes('missed')))
  })

  it('is shown while it misses pings, with how many, and again once it answers', async () => {
    host = await startHost({ tiers: ['node-permission'], limits: { pingAfter: 100, pingTimeout: 100, pingMisses: 1_000 } })
    await host.add('napping', 'nap')
    const { current } = await host.until('napping', 'ready')
    const call = host.extract('napping', { name: 'a', timeoutMs: 20_000 })
    const degraded = await host.until('napping', 'degraded')
    assert.match(degraded.reason ?? '', /^it missed \d+ of 1000 pings$/)
    await writeFile(join(host.dataDir, 'plugin-data', 'napping', 'wake'), '')
    assert.equal(await call, 'v1 read a')
    await host.until('napping', 'ready')
    assert.equal(host.core.supervisor('napping')!.current, current)
  })

  it('ends after the misses that are allowed, never before, and every other plugin is served meanwhile', async () => {
    // The bystander, too, would be ended if it were kept from answering for so long.
    host = await startHost({ tiers: ['node-permission'], limits: { pingAfter: 1_000, pingTimeout: 1_000 } })
    await host.add('spinning', 'busy-loop')
    await host.add('bystander')
    await host.until('bystander', 'ready')
    const { current } = await host.until('spinning', 'ready')
    const call = host.extract('spinning', { timeoutMs: 20_000 }).catch((error: unknown) => error)
    for (let n = 0; !current!.process.ended; n++) assert.equal(await host.extract('bystander', { name: String(n) }), `v1 read ${String(n)}`)
    await call
    assert.deepEqual(
      said('spinning').filter(line => line.includes('missed')),
      ['degraded: it missed 1 of 3 pings', 'degraded: it missed 2 of 3 pings'],
    )
    await host.until('spinning', 'ready')
  })
})
