import assert from 'node:assert/strict'
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { cp, mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { steadyPort } from '../support/steadyPort.js'
import { waitFor } from '../support/waitFor.js'

const run = promisify(execFile)
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
/** The README's own address; the walk takes a free one instead. */
const PORTS = ['8080', '9090']

/** The files of the repository as they are now, without anything that was built or installed. */
const cleanCopy = async (): Promise<string> => {
  const target = await mkdtemp(join(tmpdir(), 'gateway-clone-'))
  const { stdout } = await run('git', ['ls-files', '-z', '--cached', '--others', '--exclude-standard'], {
    cwd: ROOT,
    maxBuffer: 16 * 1024 * 1024,
  })
  for (const file of new Set(stdout.split('\0').filter(Boolean))) await cp(join(ROOT, file), join(target, file)).catch(ignoreMissing)
  return target
}

/** A file that was removed but not yet committed is still listed. */
const ignoreMissing = (error: NodeJS.ErrnoException): void => {
  if (error.code !== 'ENOENT') throw error
}

describe('the README, followed by a newcomer in a clean clone', function () {
  this.timeout(240_000)
  let clone: string
  let gateway: ChildProcess
  let output = ''
  let blocks: Record<string, string> = {}
  let ports: string[] = []

  before(async () => {
    clone = await cleanCopy()
    ports = [String(await steadyPort()), String(await steadyPort())]
    const readme = await readFile(join(clone, 'README.md'), 'utf8')
    const own = (text: string): string => PORTS.reduce((result, port, index) => result.replaceAll(port, ports[index] ?? ''), text)
    blocks = Object.fromEntries(
      [...readme.matchAll(/<!-- walk: (\w+) -->\s+```bash\n([\s\S]*?)```/g)].map(([, name = '', code = '']) => [name, own(code)]),
    )
    const command = /^ {4}(npm ci && npm start)$/m.exec(readme)?.[1]
    assert.ok(command, 'the README has lost its first command')
    const env = {
      PATH: process.env.PATH,
      HOME: process.env.HOME,
      Service__Port: ports[0],
      Service__Admin__Password: 'correct horse battery',
      npm_config_prefer_offline: 'true',
    }
    gateway = spawn('bash', ['-c', command], { cwd: clone, env, detached: true })
    gateway.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
    gateway.stderr?.on('data', (chunk: Buffer) => (output += chunk.toString()))
    await waitFor(
      `the gateway to listen:\n${output}`,
      () => {
        assert.equal(gateway.exitCode, null, output)
        return output.includes(`listening on http://127.0.0.1:${ports[0] ?? ''}`)
      },
      200_000,
    )
  })

  after(async () => {
    if (gateway.pid !== undefined && gateway.exitCode === null) process.kill(-gateway.pid, 'SIGTERM')
    await waitFor('the gateway to end', () => gateway.exitCode !== null || gateway.signalCode !== null)
    // npm ends before the gateway that it started.
    await rm(clone, { recursive: true, force: true, maxRetries: 20, retryDelay: 250 })
  })

  it('walks through its five minutes', async () => {
    const names = ['login', 'plugins', 'channel', 'webhook', 'document', 'reload', 'node']
    assert.deepEqual(Object.keys(blocks), names)
    const script = names.map(name => `echo "== ${name}"\n${blocks[name] ?? ''}`).join('\n')
    const { stdout } = await run('timeout', ['120', 'bash', '-c', `set -e\ntrap 'kill %1' EXIT\n${script}`], {
      cwd: clone,
      maxBuffer: 4 * 1024 * 1024,
    }).catch((error: unknown) => {
      const { stdout: said, stderr } = error as { stdout: string; stderr: string }
      throw new Error(`${said}\n${stderr}\n${output.slice(-3000)}`)
    })
    const said = Object.fromEntries(
      stdout
        .split(/^== /m)
        .slice(1)
        .map(part => [part.slice(0, part.indexOf('\n')), part.slice(part.indexOf('\n') + 1)]),
    )
    assert.match(said.plugins ?? '', /http-channel {2}\d.*ready {2}(bubblewrap|node-permission)/)
    assert.match(said.plugins ?? '', /subtitles/)
    assert.match(said.webhook ?? '', /"accepted":\s*"m1"/)
    assert.match(said.webhook ?? '', /"chatId":"42"/)
    assert.match(said.webhook ?? '', /remember/i)
    assert.match(said.document ?? '', /Hello from a subtitle/)
    assert.match(said.reload ?? '', /^subtitles {2}9\.9\.9 {2}ready$/m)
    assert.match(said.node ?? '', /^[A-Z2-9]{4}-[A-Z2-9]{4}\napproved\nsystem\.info\nsucceeded\nhere$/m)
  })

  it('says that it runs with the plugins on and the examples scanned', () => {
    assert.match(output, /Service:Plugins:Enabled = true/)
    assert.match(output, /Service:Plugins:Directories = examples\/plugins/)
  })
})
