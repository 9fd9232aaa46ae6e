import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { launchGateway, type LaunchOptions } from '../support/gatewayProcess.js'
import { waitFor } from '../support/waitFor.js'

/** Begins a request whose body never ends; resolves once the gateway works on it. */
const holdRequest = async (url: string): Promise<Socket> => {
  const { hostname, port } = new URL(url)
  const socket = connect(Number(port), hostname)
  socket.on('error', () => undefined)
  socket.write(
    'POST /api/auth/login HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 9\r\nExpect: 100-continue\r\n\r\n',
  )
  const [answer] = (await once(socket, 'data')) as [Buffer]
  assert.match(answer.toString(), /^HTTP\/1\.1 100 Continue/)
  return socket
}

const hasPendingSignal = (pid: number): boolean => {
  try {
    return /^ShdPnd:\t0*[1-9a-f]/m.test(readFileSync(`/proc/${String(pid)}/status`, 'utf8'))
  } catch {
    return false
  }
}

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
    const held = await holdRequest(gateway.url)
    gateway.kill('SIGTERM')
    await waitFor('the first signal', () => gateway.stderr().includes('SIGTERM: stopping'))
    await waitFor('a later signal to count', () => {
      gateway.kill('SIGTERM')
      return gateway.stderr().includes('SIGTERM again: ending now')
    })
    assert.equal(await gateway.exited, 1)
    held.destroy()
  })

  it('takes the same Ctrl-C for one that comes from the terminal and again from npm', async () => {
    const gateway = await launchGateway({ dataDir })
    const held = await holdRequest(gateway.url)
    gateway.kill('SIGINT')
    // At once, and yet after the first was delivered, or they would be one.
    while (hasPendingSignal(gateway.pid));
    gateway.kill('SIGINT')
    assert.equal(await gateway.exited, 0)
    assert.equal(gateway.stderr().match(/SIGINT/g)?.length, 1)
    held.destroy()
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

  const refusal = (options: Partial<LaunchOptions>): Promise<string> =>
    launchGateway({ dataDir, ...options }).then(
      () => assert.fail('it started'),
      (error: unknown) => String(error),
    )

  it('says in one line what to do, without a stack, about a data directory or an address that it cannot use', async () => {
    const running = await launchGateway({ dataDir })
    const twice = await refusal({})
    await running.stop()
    assert.match(
      twice,
      /could not start\. The store .* is in use by process \d+, since .*: stop it first, or use another data directory\n$/,
    )
    await writeFile(join(dataDir, 'file'), '')
    await writeFile(join(dataDir, 'empty.json'), '{}')
    const inFile = { dataDir: join(dataDir, 'file', 'data'), env: { SERVICE_CONFIG: join(dataDir, 'empty.json') } }
    assert.match(await refusal(inFile), /could not start\. ENOTDIR: .*choose another data directory with Service__DataDir=DIRECTORY\n$/)
    const elsewhere = { settings: { 'Service:Host': '192.0.2.1' } }
    assert.match(
      await refusal(elsewhere),
      /could not start\. listen EADDRNOTAVAIL: .*Service:Host has to be an address of this machine.*\n$/,
    )
    const uri = await refusal({ settings: { 'Service:Store:MongoUri': 'mongodb://ann:hunter2-hunter2@[nowhere' } })
    assert.match(uri, /could not start\. Service:Store:MongoUri cannot be read: write mongodb:.*\n$/)
    assert.ok(!uri.includes('hunter2'), uri)
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
