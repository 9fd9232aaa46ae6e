import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { launchGateway } from '../support/gatewayProcess.js'
import { waitFor } from '../support/waitFor.js'

describe('the gateway as a process', () => {
  let dataDir: string
  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-process-'))
  })
  afterEach(() => rm(dataDir, { recursive: true, force: true }))

  it('prints one line on stdout once it answers, logs to stderr, and prints a first password once, outside the log', async () => {
    const gateway = await launchGateway({ dataDir })
    assert.equal((await fetch(`${gateway.url}/api/health`)).status, 200)
    const password = /with the password (\S+)/.exec(gateway.stderr())?.[1]
    assert.ok(password, gateway.stderr())
    const inLog = gateway
      .stderr()
      .split('\n')
      .filter(line => line.startsWith('{') && line.includes(password))
    assert.deepEqual(inLog, [])
    assert.equal((await gateway.call('POST', '/auth/login', { body: { email: 'admin@localhost', password } })).status, 200)
    await gateway.stop()
    assert.equal(gateway.stdout(), `listening on ${gateway.url}\n`)

    const again = await launchGateway({ dataDir })
    assert.ok(!again.stderr().includes('with the password'), again.stderr())
    assert.equal((await again.call('POST', '/auth/login', { body: { email: 'admin@localhost', password } })).status, 200)
    await again.stop()
  })

  it('ends with code 0 on SIGTERM and on SIGINT, having finished what ran', async () => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) {
      const gateway = await launchGateway({ dataDir })
      assert.equal(await gateway.stop(signal), 0)
    }
  })

  it('ends at once on a second signal', async () => {
    const gateway = await launchGateway({ dataDir, settings: { 'Service:Http:DrainSeconds': '600' } })
    const open = fetch(`${gateway.url}/api/agents`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: new ReadableStream({ start: () => undefined }),
      duplex: 'half',
    })
    open.catch(() => undefined)
    gateway.kill('SIGTERM')
    await waitFor('the first signal', () => gateway.stderr().includes('SIGTERM: stopping'))
    gateway.kill('SIGTERM')
    assert.notEqual(await gateway.exited, null)
  })

  it('says in one line what is wrong when it cannot start', async () => {
    await writeFile(join(dataDir, 'service.json'), '{ broken')
    const failed = await launchGateway({ dataDir }).then(
      () => assert.fail('it started'),
      (error: unknown) => String(error),
    )
    assert.match(failed, /agent-gateway could not start\. The configuration file .*service\.json is not valid JSON/)
    await rm(join(dataDir, 'service.json'))
    const first = await launchGateway({ dataDir })
    const second = await launchGateway({ dataDir: `${dataDir}-2`, settings: { 'Service:Port': new URL(first.url).port } }).then(
      () => assert.fail('it started'),
      (error: unknown) => String(error),
    )
    assert.match(second, /another program uses this port/)
    await first.stop()
    await rm(`${dataDir}-2`, { recursive: true, force: true })
  })

  it('keeps what its configuration file says when the file breaks while it runs', async () => {
    const file = join(dataDir, 'service.json')
    await writeFile(file, JSON.stringify({ Service: { RateLimits: { Read: 0 } } }))
    const gateway = await launchGateway({ dataDir })
    await writeFile(file, '{"Service": {"RateLim')
    await waitFor('word of it', () => gateway.stderr().includes('The last good configuration stays in force'))
    assert.equal((await fetch(`${gateway.url}/api/version`)).status, 200)
    assert.equal(await readFile(file, 'utf8'), '{"Service": {"RateLim')
    await gateway.stop()
  })
})
