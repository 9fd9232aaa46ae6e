import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { call, unlimited, type Answer, type CallOptions } from './gateway.js'
import { steadyPort } from './steadyPort.js'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const START_LIMIT_MS = 50_000

/** A gateway of the built program, in a process of its own. */
export interface GatewayProcess {
  url: string
  pid: number
  stdout(): string
  stderr(): string
  /** The exit code; `null` after a signal. */
  exited: Promise<number | null>
  kill(signal: NodeJS.Signals): void
  /** Sends the signal (default SIGTERM) and resolves with the exit code. */
  stop(signal?: NodeJS.Signals): Promise<number | null>
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}

export interface LaunchOptions {
  dataDir: string
  /** Configuration keys, as `--default`. Rate limits are off unless named. */
  settings?: Record<string, string>
  env?: Record<string, string>
  /** The program's root; default: this repository. */
  root?: string
  /** What Node runs instead of the built program. */
  program?: string[]
}

/** Starts the built gateway on a free port and resolves once it listens; rejects with its output when it ends before. */
export const launchGateway = async ({
  dataDir,
  settings = {},
  env = {},
  root = ROOT,
  program = ['dist/main.js'],
}: LaunchOptions): Promise<GatewayProcess> => {
  // Free also when it is started again at the same one.
  const port = String(await steadyPort())
  const all = { 'Service:DataDir': dataDir, 'Service:Port': port, 'Service:Http:DrainSeconds': '2', ...unlimited, ...settings }
  const args = Object.entries(all).flatMap(([key, value]) => ['--default', `${key}=${value}`])
  const child = spawn(process.execPath, [...program, ...args], {
    cwd: root,
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const output = { stdout: '', stderr: '' }
  child.stdout.on('data', (chunk: Buffer) => (output.stdout += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output.stderr += chunk.toString()))
  // Its last words are read by then, too.
  const exited = once(child, 'close').then(([code]) => code as number | null)
  const url = await new Promise<string>((resolve, reject) => {
    const limit = setTimeout(() => {
      child.kill('SIGKILL')
      reject(new Error(`the gateway did not listen within ${String(START_LIMIT_MS)} ms:\n${output.stderr}`))
    }, START_LIMIT_MS)
    child.stdout.on('data', () => {
      const found = /^listening on (\S+)$/m.exec(output.stdout)?.[1]
      if (found === undefined) return
      clearTimeout(limit)
      resolve(found)
    })
    child.once('close', code => {
      clearTimeout(limit)
      reject(new Error(`the gateway ended with code ${String(code)}:\n${output.stderr}`))
    })
  })
  return {
    url,
    pid: child.pid ?? 0,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    exited,
    kill: signal => child.kill(signal),
    stop: async (signal = 'SIGTERM') => {
      child.kill(signal)
      return exited
    },
    call: (method, path, options) => call(url, method, path, options),
  }
}
