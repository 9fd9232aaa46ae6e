import { spawn, type ChildProcessByStdio } from 'node:child_process'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import type { Supervisor } from '../../core/host/supervisor.js'
import { defaultLimits } from '../../core/host/policy.js'
import { hasBubblewrap, startHost, type TestHost } from '../host/support.js'
import { median, row } from './measured.js'

const ROUNDS = 9
const MILLISECONDS = 400

type Call = (text: string) => Promise<unknown>

const paramsOf = (name: string) => ({ path: '/x', name, extension: '.echo', mimeType: 'text/plain', size: 1, outputDir: '/x' })

export const bundled = async (file: string): Promise<string> => {
  const entry = fileURLToPath(new URL(file, import.meta.url))
  const { outputFiles } = await build({ entryPoints: [entry], bundle: true, write: false, platform: 'node', format: 'cjs' })
  return outputFiles[0]?.text ?? ''
}

/** A plugin that answers what it is asked, as `service dev build` would have made it. */
export const addEcho = async (host: TestHost, version = '1.0.0'): Promise<void> => {
  const directory = join(host.plugins, 'echo')
  await mkdir(directory, { recursive: true })
  await writeFile(join(directory, 'echo.cjs'), await bundled('echoPlugin.ts'))
  await writeFile(join(directory, 'bare.cjs'), await bundled('echoBare.ts'))
  const manifest = { name: 'echo', version, pluginInterface: 'DocumentExtractor', supportedExtensions: ['.echo'] }
  await writeFile(join(directory, 'manifest.json'), JSON.stringify(manifest))
}

/** The gateway's way to a plugin: with the supervisor's accounting, timeouts, limits, checks, and the sandbox. */
export const callPlugin =
  (host: TestHost): Call =>
  async text => {
    const answer = await host.core.request('echo', 'extractor.extract', paramsOf(text))
    if (answer.text?.length !== text.length) throw new Error('The plugin answered something else')
  }

type BareChild = ChildProcessByStdio<Writable, Readable, null>

/** In the same sandbox, and a session of its own as well: on a busy machine that alone decides how soon it has its turn. */
export const bareBeside = ({ current }: Supervisor): BareChild => {
  const { command, args, env, cwd } = current!.launch
  const program = args.map(word => word.replace(/echo\.cjs$/, 'bare.cjs'))
  return spawn(command, program, { env, cwd, stdio: ['pipe', 'pipe', 'inherit'], detached: true })
}

/** Newline JSON by hand at both ends: ids and promises and nothing else. */
export const bareCaller = ({ stdin, stdout }: BareChild): Call => {
  const waiting = new Map<number, (value: unknown) => void>()
  let lastId = 0
  let kept = ''
  stdout.setEncoding('utf8')
  stdout.on('data', (chunk: string) => {
    const lines = (kept + chunk).split('\n')
    kept = lines.pop() ?? ''
    for (const line of lines) {
      const { id, result } = JSON.parse(line) as { id: number; result: unknown }
      waiting.get(id)?.(result)
      waiting.delete(id)
    }
  })
  return text =>
    new Promise(resolve => {
      waiting.set(++lastId, resolve)
      stdin.write(JSON.stringify({ jsonrpc: '2.0', id: lastId, method: 'echo', params: paramsOf(text) }) + '\n')
    })
}

const callsPerSecond = async (call: Call, text: string, inFlight: number): Promise<number> => {
  const start = performance.now()
  let done = 0
  const lane = async (): Promise<void> => {
    while (performance.now() - start < MILLISECONDS) {
      await call(text)
      done++
    }
  }
  await Promise.all(Array.from({ length: inFlight }, lane))
  return (done * 1000) / (performance.now() - start)
}

/** Calls of a plugin as the gateway makes them, against a bare child that echoes lines of JSON. */
export const benchCalls = async (): Promise<void> => {
  const host = await startHost({ tiers: [hasBubblewrap ? 'bubblewrap' : 'node-permission'], limits: defaultLimits, begin: false })
  let child: BareChild | undefined
  try {
    await addEcho(host)
    await host.core.start()
    child = bareBeside(await host.until('echo', 'ready'))
    const [ours, bare] = [callPlugin(host), bareCaller(child)]
    for (const bytes of [200, 65_536])
      for (const inFlight of [1, 64]) {
        const text = 'x'.repeat(bytes)
        const rounds: { ours: number; bare: number }[] = []
        // The first round warms up.
        for (let round = 0; round <= ROUNDS; round++)
          rounds.push({ bare: await callsPerSecond(bare, text, inFlight), ours: await callsPerSecond(ours, text, inFlight) })
        const [mine, its] = [median(rounds.slice(1).map(each => each.ours)), median(rounds.slice(1).map(each => each.bare))]
        const what = `Plugin call: ${String(bytes)} B, ${String(inFlight)} in flight / bare newline JSON`
        row(what, `${mine.toFixed(0)}/s`, `${its.toFixed(0)}/s`, mine / its, `at least ${inFlight === 1 ? '0.70' : '0.80'}`)
      }
  } finally {
    child?.kill('SIGKILL')
    await host.stop()
  }
}
