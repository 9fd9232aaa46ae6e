import assert from 'node:assert/strict'
import { spawn, type ChildProcessWithoutNullStreams } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, realpath, rm, writeFile } from 'node:fs/promises'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { startHost } from '../host/support.js'
import { steadyPort } from '../support/steadyPort.js'
import { waitFor } from '../support/waitFor.js'

const service = fileURLToPath(new URL('../../sdk/bin/service.js', import.meta.url))
const TOKEN = 'sk_an-administrators-token'

/** The four routes that the command uses, on a real socket. The walk through the guide does it with a real gateway. */
class Gateway {
  readonly seen: string[] = []
  readonly streams = new Set<ServerResponse>()
  plugins: Record<string, unknown>[] = []
  streamsLogs = true
  status = 200
  #server: Server | undefined
  url = ''

  async open(): Promise<void> {
    this.#server = createServer((request, response) => this.#answer(request, response)).listen(0, '127.0.0.1')
    await once(this.#server, 'listening')
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections()
    this.#server?.close()
    await once(this.#server!, 'close')
  }

  log(level: string, text: string): void {
    for (const stream of this.streams) stream.write(`data: ${JSON.stringify({ at: new Date().toISOString(), level, text })}\n\n`)
  }

  #answer(request: IncomingMessage, response: ServerResponse): void {
    const { method = '', url = '', headers } = request
    const json = (status: number, body: unknown): void => {
      response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
    }
    this.seen.push(`${method} ${url}`)
    if (headers.authorization !== `Bearer ${TOKEN}`) {
      json(401, { error: { message: 'who are you' } })
      return
    }
    if (this.status !== 200) {
      json(this.status, { error: { message: 'not now' } })
      return
    }
    if (url.startsWith('/api/plugins?') || url === '/api/plugins/scan') {
      json(200, { items: this.plugins })
      return
    }
    if (url.endsWith('/logs') && this.streamsLogs && headers.accept === 'text/event-stream') {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).flushHeaders()
      this.streams.add(response)
      return
    }
    const plugin = this.plugins.find(({ id }) => url === `/api/plugins/${String(id)}`)
    json(plugin ? 200 : 404, plugin ?? { error: { message: 'no such plugin' } })
  }
}

describe('service dev run', () => {
  let folder: string
  let pluginsDir: string
  let gateway: Gateway
  let child: ChildProcessWithoutNullStreams | undefined
  let output: string
  /** Once it has ended, and what it printed was read. */
  let closed: Promise<unknown> | undefined

  const run = (args: string[] = ['--plugins-dir', pluginsDir], env: Record<string, string> = { AGENT_GATEWAY_TOKEN: TOKEN }): void => {
    const started = spawn(process.execPath, [service, 'dev', 'run', join(folder, 'mine'), ...args], {
      env: { PATH: process.env.PATH, AGENT_GATEWAY_URL: gateway.url, ...env },
    })
    output = ''
    for (const stream of [started.stdout, started.stderr]) stream.on('data', (chunk: Buffer) => (output += chunk.toString()))
    child = started
    closed = once(started, 'close')
  }
  const says = (pattern: RegExp): Promise<unknown> =>
    waitFor(String(pattern), () => pattern.test(output)).catch((error: unknown) =>
      assert.fail(`${(error as Error).message}, in:\n${output}`),
    )
  const ended = async (): Promise<number | null> => {
    await closed
    return child?.exitCode ?? null
  }
  const write = (path: string, content: unknown): Promise<void> =>
    writeFile(join(folder, 'mine', path), typeof content === 'string' ? content : JSON.stringify(content))
  const manifest = {
    ...{ name: 'mine', version: '1.0.0', description: 'd', entrypoint: 'index.js' },
    ...{ pluginInterface: 'DocumentExtractor', supportedExtensions: ['.txt'] },
  }

  beforeEach(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'dev-run-')))
    pluginsDir = join(folder, 'plugins')
    for (const directory of ['mine', 'plugins']) await mkdir(join(folder, directory))
    await write('manifest.json', manifest)
    await write('index.js', 'console.log(1)\n')
    gateway = new Gateway()
    await gateway.open()
  })
  afterEach(async () => {
    if (child?.exitCode === null) child.kill('SIGKILL')
    await ended()
    await gateway.close()
    await rm(folder, { recursive: true, force: true })
  })

  it('builds, hands over an archive, shows states and the log, builds again on save, and takes it all back', async () => {
    gateway.plugins = [{ id: 'mine', version: '1.0.0', state: 'starting' }]
    run()
    await says(/build +1\.0\.0: .*KiB/)
    assert.deepEqual(await readdir(pluginsDir), ['mine.dev.service-plugin'])
    await says(/starting +1\.0\.0/)
    gateway.plugins = [{ id: 'mine', version: '1.0.0', state: 'ready', pid: 77, sandbox: { tier: 'bubblewrap', enforced: [], open: [] } }]
    await says(/ready +1\.0\.0, pid 77, sandbox bubblewrap/)
    await waitFor('a stream', () => gateway.streams.size > 0)
    gateway.log('warn', 'something is \u001b[31mred')
    await says(/warn +something is \?\[31mred/)
    await write('index.js', 'this is no program')
    await says(/error +index\.js:1:\d+: error: Expected ";"/)
    await says(/build +failed: the version before stays/)
    await write('manifest.json', { ...manifest, version: '1.1.0' })
    await write('index.js', 'console.log(2)\n')
    await says(/build +1\.1\.0: /)
    child?.kill('SIGINT')
    assert.equal(await ended(), 0)
    assert.deepEqual(await readdir(pluginsDir), [])
    assert.equal(gateway.seen.at(-1), 'POST /api/plugins/scan')
    assert.ok(!output.includes(TOKEN))
  })

  it('leaves the plugin there with --keep, and shows states alone where no log is streamed', async () => {
    gateway.streamsLogs = false
    gateway.plugins = [{ id: 'mine', version: '1.0.0', state: 'failed', reason: 'it failed 5 times', lastError: 'code 3' }]
    run(['--plugins-dir', pluginsDir, '--keep'])
    await says(/this gateway streams no logs of plugins/)
    await says(/failed +1\.0\.0: it failed 5 times/)
    await says(/error +code 3/)
    child?.kill('SIGTERM')
    assert.equal(await ended(), 0)
    assert.deepEqual(await readdir(pluginsDir), ['mine.dev.service-plugin'])
  })

  it('says when another copy of the plugin wins', async () => {
    const reason = 'the same id as /elsewhere/mine, which has version 2.0.0'
    gateway.plugins = [{ id: 'mine', version: '1.0.0', state: 'rejected', source: join(pluginsDir, 'mine.dev.service-plugin'), reason }]
    run()
    await says(/rejected +the same id as \/elsewhere\/mine, .*: remove that one, or give this one a higher version/)
  })

  it('builds in place what the gateway scans anyway', async () => {
    gateway.plugins = [{ id: 'mine', version: '1.0.0', state: 'ready', pid: 1, source: join(folder, 'mine') }]
    run([])
    await says(/ready/)
    assert.deepEqual(await readdir(join(folder, 'mine/publish')), ['mine.cjs'])
    assert.deepEqual(await readdir(pluginsDir), [])
  })

  it('signs what it builds with --sign, and a host that requires signatures takes it; without, it says what is missing', async () => {
    const key = join(folder, 'mine.key')
    const made = spawn(process.execPath, [service, 'dev', 'keygen', '--out', key])
    let said = ''
    made.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
    await once(made, 'close')
    const trustedKeys = [/^ed25519:\S+$/m.exec(said)![0]]
    const host = await startHost({ tiers: ['node-permission'], settings: { requireSignature: true, trustedKeys } })
    try {
      run(['--plugins-dir', host.plugins, '--sign', key])
      await says(/build +1\.0\.0/)
      await waitFor('the plugin', () => host.core.supervisor('mine'))
      child?.kill('SIGINT')
      assert.equal(await ended(), 0)
      await waitFor('its end', () => !host.core.supervisor('mine'))
      run(['--plugins-dir', host.plugins])
      const rejection = await waitFor('the refusal', () =>
        host.core.rejections.find(({ source }) => source.endsWith('.dev.service-plugin')),
      )
      gateway.plugins = [{ ...rejection, state: 'rejected' }]
      await write('index.js', 'console.log(2)\n')
      await says(/rejected +Service:Plugins:RequireSignature is on, .*: start service dev run again with --sign/)
      child?.kill('SIGINT')
      await ended()
    } finally {
      await host.stop()
    }
  })

  it('opens a port for the debugger in what it builds, says why none answers, and leaves none behind', async () => {
    const sandbox = { tier: 'node-permission', enforced: [], open: ['network'] }
    gateway.plugins = [{ id: 'mine', version: '1.0.0', state: 'ready', pid: 1, sandbox, source: join(folder, 'mine') }]
    await write('index.js', 'setTimeout(() => {}, Number(process.argv[2] ?? 0))\n')
    const port = String(await steadyPort())
    run(['--inspect', port])
    await says(/build/)
    const plugin = spawn(process.execPath, [join(folder, 'mine/publish/mine.cjs'), '30000'])
    await says(new RegExp(`debugger +127\\.0\\.0\\.1:${port}: attach`))
    plugin.kill()
    gateway.plugins = [{ ...gateway.plugins[0], pid: 2 }]
    await says(/debugger +none: it runs in the tier node-permission, and Node's permission model forbids/)
    child?.kill('SIGINT')
    assert.equal(await ended(), 0)
    await assert.doesNotReject(import(join(folder, 'mine/publish/mine.cjs')))
  })

  describe('says what is missing', () => {
    const cases: [string, () => void, RegExp][] = [
      ['a token', () => run(undefined, {}), /wants an administrator's token: set AGENT_GATEWAY_TOKEN/],
      ['the right token', () => run(undefined, { AGENT_GATEWAY_TOKEN: 'wrong' }), /refuses the token \(who are you\)/],
      ['a place', () => run([]), /Name a directory that the gateway scans with --plugins-dir/],
      ['a place that is one', () => run(['--plugins-dir', join(folder, 'nowhere')]), /nowhere is no directory/],
      [
        'a key',
        () => run(['--plugins-dir', pluginsDir, '--sign', join(folder, 'no.key')]),
        /no\.key cannot be read: make a key with service dev keygen/,
      ],
      ['a port', () => run(['--plugins-dir', pluginsDir, '--inspect', 'x']), /a port is a number/],
    ]
    for (const [what, start, message] of cases) {
      it(what, async () => {
        start()
        assert.equal(await ended(), 1)
        assert.match(output, message)
        assert.deepEqual(await readdir(pluginsDir), [])
      })
    }

    it('an archive to sign', async () => {
      const key = join(folder, 'mine.key')
      await once(spawn(process.execPath, [service, 'dev', 'keygen', '--out', key]), 'close')
      gateway.plugins = [{ id: 'mine', version: '1.0.0', state: 'ready', pid: 1, source: join(folder, 'mine') }]
      run(['--sign', key])
      assert.equal(await ended(), 1)
      assert.match(output, /is scanned as a folder, which has no signature/)
    })

    it('a gateway', async () => {
      await gateway.close()
      run()
      assert.equal(await ended(), 1)
      assert.match(output, /cannot be reached: .*ECONNREFUSED/)
      await gateway.open()
    })

    it("an administrator's rights", async () => {
      gateway.status = 403
      run()
      assert.equal(await ended(), 1)
      assert.match(output, /not an administrator's \(not now\)/)
    })

    it('the token in a file', async () => {
      await writeFile(join(folder, 'token'), `${TOKEN}\n`)
      run(['--plugins-dir', pluginsDir, '--token-file', join(folder, 'token')], {})
      await says(/build/)
    })
  })
})
