import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { PassThrough } from 'node:stream'
import { findEntry } from './entry.js'
import type { PeerInput, PeerOutput } from './rpc.js'
import { servePlugin, type PluginDefinition } from './runtime.js'

/** How a plugin ended. */
export interface PluginExit {
  code: number | null
  signal: NodeJS.Signals | null
}

/** A started program, seen from the gateway's side. */
export interface Launched {
  input: PeerInput
  output: PeerOutput
  pid: number | undefined
  /** The last 64 KiB of stderr. */
  stderr: () => string
  exited: Promise<PluginExit>
  /** Closes the plugin's stdin: what happens when the gateway dies. */
  endInput: () => void
  kill: (signal?: NodeJS.Signals) => void
}

interface LaunchOptions {
  dataDir: string
  nodeArgs: readonly string[]
  env: Readonly<Record<string, string>>
}

const KEEP_STDERR = 64 * 1024

/** `path` is a plugin's folder or an entry file. */
export async function startProcess(path: string, { dataDir, nodeArgs, env }: LaunchOptions): Promise<Launched> {
  await mkdir(dataDir, { recursive: true })
  const isFolder = (await stat(path)).isDirectory()
  const entry = isFolder ? await findEntry(path) : { command: [process.execPath, path] }
  if (!entry) throw new Error(`${path} has no entry file: build the plugin first (service dev build)`)
  const directory = isFolder ? path : dirname(path)
  const [program = '', ...args] = entry.command.map(word => (existsSync(join(directory, word)) ? join(directory, word) : word))
  const child = spawn(program, program === process.execPath ? [...nodeArgs, ...args] : args, {
    cwd: dataDir,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-KEEP_STDERR)
  })
  await Promise.race([once(child, 'spawn'), once(child, 'error').then(([error]) => Promise.reject(error as Error))])
  return {
    input: child.stdout,
    output: child.stdin,
    pid: child.pid,
    stderr: () => stderr,
    exited: once(child, 'close').then(([code, signal]) => ({ code: code as number | null, signal: signal as NodeJS.Signals | null })),
    endInput: () => child.stdin.end(),
    kill: signal => child.kill(signal),
  }
}

/** Runs a definition in this process: quick, and a debugger sees it; it has no process of its own to crash. */
export async function startInProcess(definition: PluginDefinition, { dataDir }: LaunchOptions): Promise<Launched> {
  await mkdir(dataDir, { recursive: true })
  const toPlugin = new PassThrough()
  const fromPlugin = new PassThrough()
  let end: (exit: PluginExit) => void
  const exited = new Promise<PluginExit>(resolve => {
    end = resolve
  })
  servePlugin(definition, {
    input: toPlugin,
    output: fromPlugin,
    onEnd: code => {
      fromPlugin.end()
      end({ code, signal: null })
    },
  })
  return {
    input: fromPlugin,
    output: toPlugin,
    pid: undefined,
    stderr: () => '',
    exited,
    endInput: () => toPlugin.end(),
    kill: () => toPlugin.end(),
  }
}
