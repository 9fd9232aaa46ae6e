import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtemp, readdir, readFile, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { launchGateway, type GatewayProcess } from '../support/gatewayProcess.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')
const NAMES = ['login', 'new', 'test', 'run', 'live', 'change', 'ship']

describe("the SDK's guide, followed from an empty folder", function () {
  this.timeout(240_000)
  let folder: string
  let dataDir: string
  let gateway: GatewayProcess
  let said: Record<string, string> = {}
  let running = ''

  /** The guide's own blocks; only where the gateway is differs, and that one of them runs beside the others. */
  const script = async (): Promise<string> => {
    const guide = await readFile(join(ROOT, 'sdk/README.md'), 'utf8')
    const found = [...guide.matchAll(/<!-- walk: (\w+) -->\s+```bash\n([\s\S]*?)```/g)]
    assert.deepEqual(
      found.map(([, name]) => name),
      NAMES,
    )
    const own = (code: string): string =>
      code.replaceAll('$GATEWAY/data', dataDir).replaceAll('~/agent-gateway', ROOT).replaceAll('http://127.0.0.1:8080', gateway.url)
    const blocks = found.map(([, name = '', code = '']) => {
      const block = name === 'run' ? `set -m\n${code.trim()} > ../run.log 2>&1 &\nRUN=$!\nset +m\n` : code
      return `echo "== ${name}"\n${own(block)}`
    })
    // Ctrl-C in the second terminal reaches the whole group.
    return `set -e\ntrap 'kill -INT -- -$RUN; wait $RUN || true' EXIT\n${blocks.join('\n')}\n`
  }

  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'guide-')))
    dataDir = await realpath(await mkdtemp(join(tmpdir(), 'guide-gateway-')))
    const settings = { 'Service:Plugins:Enabled': 'true', 'Service:Admin:Password': 'correct horse battery' }
    gateway = await launchGateway({ dataDir, settings })
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, npm_config_prefer_offline: 'true', npm_config_audit: 'false' }
    const options = { cwd: folder, env, maxBuffer: 4 * 1024 * 1024 }
    const { stdout } = await promisify(execFile)('timeout', ['200', 'bash', '-c', await script()], options).catch(
      async (error: unknown) => {
        const { stdout: before, stderr } = error as { stdout: string; stderr: string }
        throw new Error(`${before}\n${stderr}\n${await readFile(join(folder, 'run.log'), 'utf8').catch(() => '')}`)
      },
    )
    running = await readFile(join(folder, 'run.log'), 'utf8')
    said = Object.fromEntries(
      stdout
        .split(/^== /m)
        .slice(1)
        .map(part => [part.slice(0, part.indexOf('\n')), part.slice(part.indexOf('\n') + 1)]),
    )
  })

  after(async () => {
    await gateway.stop()
    for (const left of [folder, dataDir]) await rm(left, { recursive: true, force: true, maxRetries: 10 })
  })

  it('writes a plugin', () => assert.match(said.new ?? '', /wrote my-notes\/src\/index\.ts/))

  it('that passes its own test and every check of the conformance kit', () => {
    assert.match(said.test ?? '', /^my-notes 0\.1\.0 is a valid DocumentExtractor$/m)
    assert.match(said.test ?? '', /# pass 3/)
    assert.match(said.test ?? '', /my-notes 0\.1\.0 \(DocumentExtractor\): \d+ passed, 0 failed, 0 skipped/)
  })

  it('that runs live in a sandbox and reads a document', () => {
    assert.match(said.live ?? '', /^(bubblewrap|deno|node-permission)\nTea\nwith Ada, at five\n$/)
  })

  it('that is another one after a change', () => assert.equal(said.change, 'TEA\nWITH ADA, AT FIVE\n'))

  it('that is one file in the end', () => assert.match(said.ship ?? '', /^my-notes-0\.2\.0\.service-plugin$/m))

  it('and shows meanwhile what becomes of it, why there is no debugger, and its log, then takes it out of the gateway', async () => {
    assert.match(running, /ready +0\.1\.0, pid \d+, sandbox/)
    assert.match(running, /ready +0\.2\.0, pid \d+, sandbox/)
    assert.match(running, /debugger +none: it runs in the tier (bubblewrap|deno|node-permission)/)
    assert.match(running, /info +read today\.my-notes/)
    assert.deepEqual(await readdir(join(dataDir, 'plugins')), [])
  })
})
