import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { createSocket } from 'node:dgram'
import { cp, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import { lookup } from 'node:dns/promises'
import { connect, createServer, type AddressInfo, type Server } from 'node:net'
import { hostname } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { waitFor } from '../support/waitFor.js'
import { noBubblewrap, noDeno, sandboxes, skipped } from './sandboxes.js'
import { startHost, type TestHost } from './support.js'

/** What plugins try. Each must come out as their sandbox's published `enforced` and `open` say. */
interface Attempt {
  name: string
  attempt: string
  options?: () => Record<string, unknown>
  /** It works only where one of the published `open` says so; elsewhere one of `enforced` says that it does not. */
  open: RegExp
  enforced: RegExp
}

const NETWORK = /^network(:|$)/
const NETWORK_HELD = /^network(,|$)/
const FILES = { open: /^files/, enforced: /files outside its own directories/ }

for (const sandbox of sandboxes) {
  describe(`in the sandbox ${sandbox.name}${sandbox.note}`, function () {
    let host: TestHost
    let server: Server
    let port = 0
    let secret = ''
    let secretJson = ''
    let socketPath = ''

    before(async function () {
      if (sandbox.missing !== undefined) this.skip()
      process.env.GATEWAY_DATABASE_PASSWORD = 'must-not-be-seen'
      host = await startHost({ tiers: sandbox.tiers })
      const directory = await host.add('prisoner', 'behave', sandbox.net ? { permissions: { net: sandbox.net } } : {})
      await cp(anyAddOn(), join(directory, 'add-on.node'))
      await host.add('neighbour')
      secret = join(host.dataDir, 'vault.key')
      await writeFile(secret, 'the key')
      secretJson = join(host.dataDir, 'service.json')
      await writeFile(secretJson, '{"key": "the key"}')
      socketPath = join(host.dataDir, 'a.sock')
      server = createServer(socket => socket.end('HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n')).listen(0, '::')
      await waitFor('the port', () => server.listening)
      port = (server.address() as AddressInfo).port
      await host.until('prisoner', 'ready')
      await host.until('neighbour', 'ready')
    })
    after(async () => {
      delete process.env.GATEWAY_DATABASE_PASSWORD
      if (sandbox.missing !== undefined) return
      server.close()
      await host.stop()
    })

    // An attempt that ends its process is a failure of its own, and of no other.
    beforeEach(async () => {
      if (sandbox.missing === undefined) await host.until('prisoner', 'ready')
    })

    const published = (): { enforced: string[]; open: string[] } => host.core.supervisor('prisoner')!.current!.launch

    const attempts: Attempt[] = [
      { name: 'reads the key of the vault', attempt: 'read-outside', options: () => ({ path: secret }), ...FILES },
      {
        name: "reads another plugin's files",
        attempt: 'read-outside',
        options: () => ({ path: join(host.plugins, 'neighbour', 'manifest.json') }),
        ...FILES,
      },
      {
        name: "reads another plugin's staged files",
        attempt: 'read-outside',
        options: () => ({ path: join(host.core.supervisor('neighbour')!.current!.directory, 'manifest.json') }),
        ...FILES,
      },
      {
        name: "reads the gateway's own program",
        attempt: 'read-outside',
        options: () => ({ path: fileURLToPath(import.meta.url) }),
        ...FILES,
      },
      { name: 'lists the data directory of the gateway', attempt: 'list-outside', options: () => ({ path: host.dataDir }), ...FILES },
      {
        name: "reads the key of the vault by another way to the system's root",
        attempt: 'read-outside',
        options: () => ({ path: `/proc/self/root${secret}` }),
        ...FILES,
      },
      {
        name: "reads the key of the vault by the gateway's own process",
        attempt: 'read-outside',
        options: () => ({ path: `/proc/${process.pid}/root${secret}` }),
        ...FILES,
      },
      { name: "reads the gateway's memory", attempt: 'read-outside', options: () => ({ path: `/proc/${process.pid}/maps` }), ...FILES },
      {
        name: "lists the gateway's open files",
        attempt: 'list-outside',
        options: () => ({ path: `/proc/${process.pid}/fd` }),
        ...FILES,
      },
      { name: 'imports a file of the gateway', attempt: 'import-outside', options: () => ({ path: secretJson }), ...FILES },
      { name: 'requires a file of the gateway', attempt: 'require-outside', options: () => ({ path: secretJson }), ...FILES },
      { name: 'imports a file of the gateway in a worker', attempt: 'import-in-worker', options: () => ({ path: secretJson }), ...FILES },
      {
        name: 'replaces its own files in the plugin directory',
        attempt: 'write-outside',
        options: () => ({ path: join(host.plugins, 'prisoner', 'prisoner.mjs') }),
        ...FILES,
      },
      {
        name: "writes into another plugin's data",
        attempt: 'write-outside',
        options: () => ({ path: join(host.dataDir, 'plugin-data', 'neighbour', 'planted') }),
        ...FILES,
      },
      {
        name: 'fills the memory that stands for /tmp',
        attempt: 'fill-file',
        options: () => ({ path: '/tmp/escape-filler', bytes: 96 << 20 }),
        ...FILES,
      },
      { name: "reads the system's password hashes", attempt: 'read-outside', options: () => ({ path: '/etc/shadow' }), ...FILES },
      { name: 'reads outside through a link of its own', attempt: 'link-out', options: () => ({ path: secret }), ...FILES },
      {
        name: 'writes into the data directory of the gateway',
        attempt: 'write-outside',
        options: () => ({ path: join(host.dataDir, 'planted') }),
        ...FILES,
      },
      { name: 'changes its own program', attempt: 'write-self', ...FILES },
      {
        name: 'fills memory by files below /dev',
        attempt: 'fill-file',
        options: () => ({ path: '/dev/filler', bytes: 1 << 20 }),
        ...FILES,
      },
      {
        name: "reads the gateway's environment",
        attempt: 'read-environment-of',
        options: () => ({ pid: process.pid }),
        open: /^files/,
        enforced: /environment|files/,
      },
      { name: 'starts a program', attempt: 'spawn', open: /^child processes/, enforced: /^child processes/ },
      {
        name: 'loads a native add-on',
        attempt: 'load-add-on',
        options: () => ({ name: 'add-on.node' }),
        open: /native add-ons/,
        enforced: /native add-ons/,
      },
      { name: 'starts a worker thread', attempt: 'start-worker', open: /worker threads/, enforced: /worker threads/ },
      {
        name: "connects to the gateway's own port",
        attempt: 'connect-out',
        options: () => ({ port }),
        open: NETWORK,
        enforced: NETWORK_HELD,
      },
      {
        name: 'connects by an IPv6 address',
        attempt: 'connect-out',
        options: () => ({ port, host: '::1' }),
        open: NETWORK,
        enforced: NETWORK_HELD,
      },
      {
        name: 'connects by a name that it may not use',
        attempt: 'connect-out',
        options: () => ({ port, host: 'localhost' }),
        open: NETWORK,
        enforced: NETWORK_HELD,
      },
      {
        name: 'connects by a name of this machine, which leads inside',
        attempt: 'connect-out',
        options: () => ({ port, host: hostname() }),
        open: NETWORK,
        enforced: NETWORK_HELD,
      },
      {
        name: 'connects by an IPv4 address that is written as IPv6',
        attempt: 'connect-out',
        options: () => ({ port, host: '::ffff:127.0.0.1' }),
        open: NETWORK,
        enforced: NETWORK_HELD,
      },
      {
        name: 'fetches from the gateway',
        attempt: 'fetch-out',
        options: () => ({ url: `http://127.0.0.1:${port}/` }),
        open: NETWORK,
        enforced: NETWORK_HELD,
      },
    ]

    for (const { name, attempt, options, open, enforced } of attempts) {
      it(`a plugin ${name} exactly as published`, async () => {
        const { allowed, error, value } = await host.attempt('prisoner', attempt, options?.())
        const said = published()
        const isOpen = said.open.some(line => open.test(line))
        assert.equal(allowed === true && value !== false, isOpen, `${String(error ?? value)}; open: ${said.open.join('; ')}`)
        if (!isOpen)
          assert.ok(
            said.enforced.some(line => enforced.test(line)),
            `nothing enforced says so: ${said.enforced.join('; ')}`,
          )
        assert.ok(!existsSync(join(host.dataDir, 'planted')))
      })
    }

    it('a plugin signals the gateway exactly as published', async () => {
      // A bystander stands for the gateway: a signal that works would end the tests.
      const bystander = spawn('sleep', ['60'])
      const ended = new Promise<string>(resolve => bystander.once('exit', (_code, signal) => resolve(signal ?? 'code')))
      const { allowed } = await host.attempt('prisoner', 'signal-parent', { pid: bystander.pid }).finally(() => bystander.kill('SIGKILL'))
      const { open, enforced } = published()
      assert.equal(
        allowed,
        open.some(line => line.startsWith('signals')),
      )
      if (!allowed) assert.ok(enforced.some(line => line.includes('signals')))
      assert.equal(await ended, allowed ? 'SIGTERM' : 'SIGKILL')
    })

    it('a plugin sends a datagram exactly as published', async () => {
      const heard: string[] = []
      const socket = createSocket('udp4', message => heard.push(message.toString()))
      await new Promise<void>(resolve => socket.bind(0, '127.0.0.1', resolve))
      const to = socket.address().port
      await host.attempt('prisoner', 'send-datagram', { port: to })
      // It comes behind whatever the plugin sent.
      socket.send('last', to, '127.0.0.1')
      await waitFor('the last datagram', () => heard.includes('last'))
      socket.close()
      assert.equal(
        heard[0] === 'out',
        published().open.some(line => NETWORK.test(line)),
      )
    })

    it('a plugin lets others in exactly as published', async () => {
      const { allowed, value } = await host.attempt('prisoner', 'listen')
      // In a network of its own it may listen: nobody hears.
      const reached = allowed === true && (await answers(Number(value)))
      assert.equal(
        reached,
        published().open.some(line => NETWORK.test(line)),
      )
    })

    if (sandbox.tiers.includes('deno'))
      it("a plugin widens Deno's permissions by none of Deno's own ways", async () => {
        assert.deepEqual(await host.attempt('prisoner', 'widen-deno', { path: secret }), { open: [] })
      })

    it('a plugin does with its own files what it may not do with others', async () => {
      await writeFile(join(host.dataDir, 'plugin-data', 'prisoner', 'own.json'), '{"key": "mine"}')
      const { dataDirInPlugin, open } = host.core.supervisor('prisoner')!.current!.launch
      const path = join(dataDirInPlugin, 'own.json')
      for (const attempt of ['read-outside', 'import-outside', 'require-outside', 'write-outside'])
        assert.equal((await host.attempt('prisoner', attempt, { path })).allowed, true, attempt)
      assert.equal((await host.attempt('prisoner', 'list-outside', { path: dataDirInPlugin })).allowed, true)
      await writeFile(join(host.dataDir, 'plugin-data', 'prisoner', 'own.json'), '{"key": "mine"}')
      const hasWorkers = open.some(line => line.includes('worker threads'))
      const { allowed, error } = await host.attempt('prisoner', 'import-in-worker', { path })
      assert.equal(allowed, hasWorkers, String(error))
    })

    it('a plugin connects to a socket of the system exactly as published', async () => {
      const local = createServer(socket => socket.end()).listen(socketPath)
      await waitFor('the socket', () => local.listening)
      const { allowed, error } = await host.attempt('prisoner', 'connect-socket', { path: socketPath }).finally(() => local.close())
      const isOpen = sandbox.tiers[0] === 'node-permission'
      assert.equal(allowed, isOpen, String(error))
      assert.equal(published().open.includes('network'), isOpen)
    })

    it('a plugin gets nothing of the environment of the gateway', async () => {
      const env = await host.attempt('prisoner', 'print-env')
      assert.ok(!JSON.stringify(env).includes('must-not-be-seen'))
      assert.ok(Object.keys(env).length <= 10, Object.keys(env).join())
      const { allowed, value } = await host.attempt('prisoner', 'read-outside', { path: '/proc/1/environ' })
      assert.ok(allowed === false || value === '', String(value))
    })

    it('a plugin writes into its own data directory', async () => {
      assert.deepEqual((await host.attempt('prisoner', 'write-data')).allowed, true)
      assert.ok(existsSync(join(host.dataDir, 'plugin-data', 'prisoner', 'kept')))
    })
  })
}

for (const { around, tiers, missing } of [
  { around: 'bubblewrap', tiers: ['bubblewrap', 'deno'] as const, missing: noBubblewrap ?? noDeno },
  { around: 'nothing', tiers: ['deno'] as const, missing: noDeno },
])
  describe(`a plugin that may use certain hosts, in Deno with ${around} around it${skipped(missing)}`, () => {
    let host: TestHost
    let server: Server
    let port = 0
    before(async function () {
      if (missing !== undefined) this.skip()
      server = createServer(socket => socket.end()).listen(0, '::')
      await waitFor('the port', () => server.listening)
      port = (server.address() as AddressInfo).port
      host = await startHost({ tiers })
    })
    after(async () => {
      if (missing !== undefined) return
      server.close()
      await host.stop()
    })

    const published = (id: string): { enforced: string[]; open: string[] } => host.core.supervisor(id)!.current!.launch

    it('reaches an address inside only when its manifest names it, and that is published', async () => {
      await host.add('local', 'behave', { permissions: { net: [`127.0.0.1:${port}`] } })
      await host.until('local', 'ready')
      assert.equal((await host.attempt('local', 'connect-out', { port })).allowed, true)
      assert.equal((await host.attempt('local', 'connect-out', { port: port + 1 })).allowed, false)
      assert.equal((await host.attempt('local', 'connect-out', { port, host: 'localhost' })).allowed, false)
      assert.match(published('local').open.join('; '), new RegExp(`addresses inside that its manifest names: 127.0.0.1:${port}`))
    })

    it('is let to the address inside that its manifest names, and to no other of its range', async () => {
      const name = hostname().toLowerCase()
      const { address } = await lookup(name, { family: 4 })
      const neighbour = address.replace(/\d+$/, last => String((Number(last) % 200) + 1))
      await host.add('neighbour', 'behave', { permissions: { net: [`${neighbour}:${port}`, `${name}:${port}`] } })
      await host.until('neighbour', 'ready')
      assert.equal((await host.attempt('neighbour', 'connect-out', { port, host: name })).allowed, false)
      await host.add('itself', 'behave', { permissions: { net: [`${address}:${port}`, `${name}:${port}`] } })
      await host.until('itself', 'ready')
      assert.equal((await host.attempt('itself', 'connect-out', { port, host: name })).allowed, true)
      assert.match(published('itself').open.join('; '), new RegExp(`${address} behind permitted names too`))
    })

    it('is not led inside by a name that it may use', async () => {
      // This machine's own name leads to an address inside, as a hostile name server would let any name do.
      const name = hostname().toLowerCase()
      await host.add('rebound', 'behave', { permissions: { net: [`${name}:${port}`] } })
      await host.until('rebound', 'ready')
      assert.equal((await host.attempt('rebound', 'connect-out', { port, host: name })).allowed, false)
      assert.match(published('rebound').enforced.join('; '), /of private networks, also behind permitted names/)
    })
  })

describe('a plugin that imports a file of the system by name', () => {
  for (const { name, tiers, missing, note } of sandboxes.filter(({ net }) => net === undefined))
    it(`never starts in ${name}${note}`, async function () {
      if (missing !== undefined) this.skip()
      const host = await startHost({ tiers, settings: { enabled: false } })
      try {
        const outside = join(host.dataDir, 'service.json')
        await writeFile(outside, '{"key": "gateway-secret"}')
        const directory = await host.add('importer')
        const program = `import stolen from ${JSON.stringify(outside)} with { type: 'json' }\nconsole.error(stolen.key)\n`
        await writeFile(join(directory, 'importer.mjs'), program)
        host.settings.enabled = true
        await host.core.scan()
        await host.until('importer', 'failed', 'backing-off')
        assert.ok(!host.logged().includes('gateway-secret'))
      } finally {
        await host.stop()
      }
    })
})

/** Whether something on this machine answers at the port. */
const answers = (port: number): Promise<boolean> =>
  new Promise(resolve => {
    const socket = connect({ port, host: '127.0.0.1' })
    socket.on('data', () => {
      socket.destroy()
      resolve(true)
    })
    socket.on('error', () => resolve(false))
  })

/** Some native add-on that was built for this Node. */
function anyAddOn(): string {
  const directory = join(createRequire(import.meta.url).resolve('@photostructure/sqlite'), '..', '..')
  const found = [
    join(directory, 'prebuilds', `${process.platform}-${process.arch}`, '@photostructure+sqlite.glibc.node'),
    join(directory, 'build', 'Release', 'phstr_sqlite.node'),
  ].find(path => existsSync(path))
  assert.ok(found, `no add-on below ${directory}`)
  return found
}
