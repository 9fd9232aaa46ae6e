import assert from 'node:assert/strict'
import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { PROTOCOL_VERSIONS } from '../../sdk/protocol.js'
import { waitFor } from '../support/waitFor.js'

const sdk = fileURLToPath(new URL('../../sdk/index.ts', import.meta.url))
const frame = (id: number, method: string, params: object): string => `${JSON.stringify({ jsonrpc: '2.0', id, method, params })}\n`
const plugin = { id: 'x', version: '1.0.0' }
const hello = frame(1, 'plugin.initialize', {
  protocolVersions: PROTOCOL_VERSIONS,
  plugin,
  host: { name: 'h', version: '1' },
  dataDir: '/',
})
const read = (id: number): string => frame(id, 'extractor.extract', { path: 'p', name: 'n', outputDir: 'o' })

describe('the stdin and stdout of a plugin', () => {
  let folder: string
  let child: ChildProcessByStdio<Writable, Readable, null> | undefined
  let output = ''

  before(async () => {
    folder = await mkdtemp(join(tmpdir(), 'stdio-test-'))
  })
  after(() => rm(folder, { recursive: true, force: true }))
  afterEach(() => child?.kill('SIGKILL'))

  /** The answers so far, by id. Everything on stdout must be JSON, or blank. */
  const answers = (): Map<number, unknown> =>
    new Map(
      output
        .split('\n')
        .slice(0, -1)
        .filter(line => line !== '')
        .map(line => JSON.parse(line) as { id: number; result: unknown })
        .map(({ id, result }) => [id, result]),
    )

  const program = async (before: string): Promise<string> => {
    const source = `${before}
      import { defineDocumentExtractor } from ${JSON.stringify(sdk)}
      defineDocumentExtractor({ extract: () => { console.log('stray'); return { text: 'read' } } })`
    const { outputFiles } = await build({
      stdin: { contents: source, resolveDir: folder },
      bundle: true,
      write: false,
      platform: 'node',
      format: 'cjs',
    })
    await writeFile(join(folder, 'program.cjs'), outputFiles[0]?.text ?? '')
    return join(folder, 'program.cjs')
  }

  const start = async (before = ''): Promise<ChildProcessByStdio<Writable, Readable, null>> => {
    output = ''
    child = spawn(process.execPath, [await program(before)], { stdio: ['pipe', 'pipe', 'ignore'] })
    child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
    return child
  }

  it('take calls that come together with the handshake, and in the middle of one that come after it', async () => {
    const { stdin } = await start()
    stdin.write(hello + read(2) + read(3).slice(0, 20))
    await waitFor('two answers', () => answers().size === 2)
    stdin.write(read(3).slice(20))
    await waitFor('the third', () => answers().has(3))
    assert.deepEqual([...answers().values()].slice(1), [{ text: 'read' }, { text: 'read' }])
  })

  it('hold up no end before the handshake', async () => {
    const { pid = 0 } = await start("process.stdout.write('\\n')")
    await waitFor('the program', () => output !== '')
    // It waits for the first line then.
    await new Promise(resolve => setTimeout(resolve, 200))
    const ended = once(child!, 'exit')
    process.kill(pid, 'SIGTERM')
    assert.deepEqual(await ended, [null, 'SIGTERM'])
  })

  it('take a handshake that comes in pieces', async () => {
    const { stdin } = await start()
    stdin.write(hello.slice(0, 30))
    await new Promise(resolve => setTimeout(resolve, 50))
    stdin.write(hello.slice(30) + read(2))
    await waitFor('the answers', () => answers().has(2))
  })

  it('are what the protocol has after half a line of somebody else', async () => {
    const { stdin } = await start("process.stdout.write('half a line');")
    stdin.write(hello)
    await waitFor('an answer', () => output.includes('"result"'))
    output = output.replace('half a line', '')
    assert.deepEqual(answers().get(1), { protocolVersion: PROTOCOL_VERSIONS[0] })
  })

  it('end it with 0 when the gateway is gone before it said anything', async () => {
    const started = await start()
    const ended = once(started, 'exit')
    started.stdin.end()
    assert.deepEqual(await ended, [0, null])
  })

  it('may be files', async () => {
    await writeFile(join(folder, 'in'), hello)
    const [input, out] = [await open(join(folder, 'in')), await open(join(folder, 'out'), 'w')]
    const started = spawn(process.execPath, [await program('')], { stdio: [input.fd, out.fd, 'ignore'] })
    await once(started, 'exit')
    await Promise.all([input.close(), out.close()])
    output = await readFile(join(folder, 'out'), 'utf8')
    assert.ok(answers().has(1))
  })
})
