import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough } from 'node:stream'
import { findEntry, resolveCommand } from './entry.js'
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
  pluginVersions: readonly string[]
}

const KEEP_STDERR = 64 * 1024

/** `path` is a plugin's folder or an entry file. */
export async function startProcess(path: string, { dataDir, nodeArgs, env }: Omit<LaunchOptions, 'pluginVersions'>): Promise<Launched> {
  await mkdir(dataDir, { recursive: true })
  const isFolder = (await stat(path)).isDirectory()
  const [program = '', ...args] = isFolder ? await commandOf(path, nodeArgs) : [process.execPath, ...nodeArgs, path]
  const child = spawn(program, args, {
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

async function commandOf(folder: string, nodeArgs: readonly string[]): Promise<string[]> {
  const entry = await findEntry(folder).catch((error: unknown) => {
    throw new Error(`${folder}: ${(error as Error).message}. Build the plugin first (service dev build)`, { cause: error })
  })
  return entry.kind === 'javascript' ? [process.execPath, ...nodeArgs, join(folder, entry.file)] : resolveCommand(folder, entry)
}

/** Runs a definition in this process: quick, and a debugger sees it; it has no process of its own to crash. */
export async function startInProcess(definition: PluginDefinition, { dataDir, pluginVersions }: LaunchOptions): Promise<Launched> {
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
    protocolVersions: pluginVersions,
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
