import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ADMIN, call, login, type Answer, type CallOptions } from '../support/gateway.js'
import { waitFor } from '../support/waitFor.js'
import { median, row } from './measured.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PROBE = fileURLToPath(new URL('pauseProbe.mjs', import.meta.url))
const EXAMPLES = join(ROOT, 'examples/plugins')
const ROUNDS = 5
const MEGABYTES = 10
/** As long as a step of the others takes. */
const IDLE_MS = 2_000

interface Pauses {
  /** Milliseconds, longest first. */
  pauses: number[]
  gc: number[]
}

interface ProbedGateway {
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Since the last call. */
  pauses(): Promise<Pauses>
  stop(): Promise<void>
}

/** The built gateway, with the probe loaded before it. */
const startProbed = async (dataDir: string): Promise<ProbedGateway> => {
  const profile = process.env.BENCH_CPU_PROFILE
  const settings = {
    'Service:DataDir': dataDir,
    'Service:Port': '0',
    'Service:Admin:Password': ADMIN.password,
    'Service:Plugins:Enabled': 'true',
    'Service:Plugins:Directories': EXAMPLES,
    'Service:Log:Level': 'warn',
    'Service:RateLimits:Read': '0',
    'Service:RateLimits:Write': '0',
    'Service:RateLimits:Expensive': '0',
    'Service:RateLimits:Chat': '0',
  }
  const args = [
    ...(profile === undefined ? [] : ['--cpu-prof', `--cpu-prof-dir=${profile}`]),
    ...['--import', PROBE, join(ROOT, 'dist/main.js')],
    ...Object.entries(settings).flatMap(([key, value]) => ['--default', `${key}=${value}`]),
  ]
  const child: ChildProcess = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] })
  const exited = once(child, 'exit')
  let output = ''
  child.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const url = await waitFor('the gateway to listen', () => /listening on (\S+)/.exec(output)?.[1])
  return {
    call: (method, path, options) => call(url, method, path, options),
    pauses: async () => {
      const answer = once(child, 'message') as Promise<[Pauses]>
      child.send('report')
      return (await answer)[0]
    },
    stop: async () => {
      child.kill('SIGTERM')
      await exited
    },
  }
}

const WORDS = 'gateway passage worker ledger harbour citrus meadow winter copper lantern orbit velvet thunder canvas pepper'.split(' ')

/** Sentences of words that hardly repeat, as a long text has them, one caption or line after the other. */
const longText = (line: (sentence: string, n: number) => string): Buffer => {
  const lines: string[] = []
  for (let bytes = 0, n = 0; bytes < MEGABYTES * 1024 * 1024; n++) {
    const words = Array.from({ length: 12 }, (_, at) => `${WORDS[(n * 7 + at * 3) % WORDS.length] ?? ''}${at % 4 === 0 ? String(n) : ''}`)
    const text = line(words.join(' '), n)
    lines.push(text)
    bytes += text.length
  }
  return Buffer.from(lines.join(''))
}

const stamp = (n: number): string => new Date(n * 1000).toISOString().slice(11, 19)
const asText = (): Buffer => longText(sentence => `${sentence}.\n`)
const asSubtitles = (): Buffer =>
  longText((sentence, n) => `${String(n + 1)}\n${stamp(n % 80_000)},000 --> ${stamp((n % 80_000) + 1)},000\n${sentence}\n\n`)

const upload = async (gateway: ProbedGateway, token: string, name: string, content: Buffer): Promise<string> => {
  const body = new FormData()
  body.append('file', new File([new Uint8Array(content)], name))
  const { status, text, body: answer } = await gateway.call('POST', '/documents/upload', { token, body })
  if (status !== 201) throw new Error(`the upload of ${name} failed: ${text}`)
  const { id } = answer as { id: string }
  await waitFor(
    `the text of ${name}`,
    async () => {
      const { items } = (await gateway.call('GET', '/documents', { token })).body as { items: { id: string; status: string }[] }
      const found = items.find(item => item.id === id)
      if (found?.status === 'failed') throw new Error(`${name}: ${(await gateway.call('GET', `/documents/${id}`, { token })).text}`)
      return found?.status === 'ready'
    },
    120_000,
  )
  return id
}

/** The longest pauses of the gateway's event loop while it takes in a document of 10 MB and gives it out again. */
export const benchDocuments = async (): Promise<void> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'gateway-bench-'))
  const gateway = await startProbed(dataDir)
  try {
    const token = await login(gateway)
    const ok = async (method: string, path: string, body?: unknown): Promise<void> => {
      const { status, text } = await gateway.call(method, path, { token, body })
      if (status >= 300) throw new Error(`${method} ${path}: ${text.slice(0, 200)}`)
    }
    const text = asText()
    const subtitles = asSubtitles()
    let id = ''
    const steps: Record<string, () => Promise<unknown>> = {
      'an idle gateway': () => new Promise(resolve => setTimeout(resolve, IDLE_MS)),
      'text: upload until ready': async () => (id = await upload(gateway, token, 'long.txt', text)),
      'by a plugin: upload until ready': () => upload(gateway, token, 'long.srt', subtitles),
      list: () => ok('GET', '/documents'),
      'read, with its text': () => ok('GET', `/documents/${id}`),
      download: () => ok('GET', `/documents/${id}/download`),
      'search, by an agent': async () => {
        const { body } = await gateway.call('POST', '/chat', { token, body: { message: '/documents harbour4 lantern' } })
        const { taskId } = body as { taskId: string }
        await waitFor(
          'the search',
          async () => ((await gateway.call('GET', `/tasks/${taskId}`, { token })).body as { status: string }).status === 'succeeded',
        )
      },
    }
    const seen = new Map<string, Pauses[]>()
    // The first round loads what is loaded at first use.
    for (let round = 0; round <= ROUNDS; round++)
      for (const [name, run] of Object.entries(steps)) {
        await gateway.pauses()
        await run()
        const pauses = await gateway.pauses()
        if (round > 0 || process.env.BENCH_FIRST) seen.set(name, [...(seen.get(name) ?? []), pauses])
      }
    const longest = (name: string): number[] => (seen.get(name) ?? []).map(({ pauses }) => pauses[0] ?? 0)
    const idle = median(longest('an idle gateway'))
    for (const name of Object.keys(steps)) {
      const each = longest(name)
      const gc = Math.max(...(seen.get(name) ?? []).map(entry => entry.gc[0] ?? 0))
      row(
        `Pause, ${String(MEGABYTES)} MB: ${name}`,
        `${median(each).toFixed(1)} ms`,
        `${idle.toFixed(1)} ms`,
        median(each) / idle,
        `under 5 ms (worst ${Math.max(...each).toFixed(1)}, GC ${gc.toFixed(1)})`,
      )
    }
  } finally {
    await gateway.stop()
    await rm(dataDir, { recursive: true, force: true })
  }
}
