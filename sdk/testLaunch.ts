import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { PassThrough, type Writable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { findEntry, resolveCommand } from './entry.js'
import type { PeerInput } from './rpc.js'
import { servePlugin, type PluginDefinition } from './runtime.js'

/** How a plugin ended. */
export interface PluginExit {
  code: number | null
  signal: NodeJS.Signals | null
}

/** A started program, seen from the gateway's side. */
export interface Launched {
  input: PeerInput
  output: Writable
  pid: number | undefined
  /** The last 64 KiB of stderr. */
  stderr: () => string
  exited: Promise<PluginExit>
  /** Closes the plugin's stdin: what happens when the gateway dies. */
  endInput: () => void
  /** To the process and its children. */
  kill: (signal?: NodeJS.Signals) => void
}

interface LaunchOptions {
  dataDir: string
  nodeArgs: readonly string[]
  env: Readonly<Record<string, string>>
  pluginVersions: readonly string[]
}

const KEEP_STDERR = 64 * 1024
/** How long a dead process's last output is waited for: a grandchild may hold its pipes for ever. */
const LAST_OUTPUT_MS = 500
const hasGroups = process.platform !== 'win32'

/** What runs now. It goes when this process exits, whether it looks at its stdin or not. */
const running = new Set<() => void>()

function endWithThisProcess(kill: () => void): () => void {
  if (running.size === 0) process.on('exit', killAll)
  running.add(kill)
  return () => {
    running.delete(kill)
    if (running.size === 0) process.off('exit', killAll)
  }
}

function killAll(): void {
  for (const kill of running) kill()
}

/** `path` is a plugin's folder or an entry file; `name` stands for the folder's where that is not the original one. */
export async function startProcess(
  path: string,
  { dataDir, nodeArgs, env, name }: Omit<LaunchOptions, 'pluginVersions'> & { name?: string },
): Promise<Launched> {
  await mkdir(dataDir, { recursive: true })
  const isFolder = (await stat(path)).isDirectory()
  const [program = '', ...args] = isFolder ? await commandOf(path, name, nodeArgs) : [process.execPath, ...nodeArgs, path]
  const child = spawn(program, args, {
    cwd: dataDir,
    env: { PATH: process.env.PATH, ...env },
    stdio: ['pipe', 'pipe', 'pipe'],
    detached: hasGroups,
  })
  let stderr = ''
  child.stderr.on('data', (chunk: Buffer) => {
    stderr = (stderr + chunk.toString()).slice(-KEEP_STDERR)
  })
  await Promise.race([
    once(child, 'spawn'),
    once(child, 'error').then(([error]) => Promise.reject(new Error(`${program} cannot be started: ${(error as Error).message}`))),
  ])
  const kill = (signal: NodeJS.Signals = 'SIGTERM'): void => {
    try {
      if (hasGroups && child.pid !== undefined) process.kill(-child.pid, signal)
      else child.kill(signal)
    } catch {
      // The group is gone already.
    }
  }
  const forget = endWithThisProcess(() => kill('SIGKILL'))
  const closed = once(child, 'close')
  const exited = once(child, 'exit').then(async ([code, signal]) => {
    await Promise.race([closed, sleep(LAST_OUTPUT_MS, undefined, { ref: false })])
    kill('SIGKILL')
    forget()
    return { code: code as number | null, signal: signal as NodeJS.Signals | null }
  })
  return {
    input: child.stdout,
    output: child.stdin,
    pid: child.pid,
    stderr: () => stderr,
    exited,
    endInput: () => child.stdin.end(),
    kill,
  }
}

async function commandOf(folder: string, name: string | undefined, nodeArgs: readonly string[]): Promise<string[]> {
  const entry = await findEntry(folder, name).catch((error: unknown) => {
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
