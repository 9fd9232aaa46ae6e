import { CommandError, platformUnsupported } from '@agent-gateway/sdk/node'
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { access, constants, stat } from 'node:fs/promises'
import { delimiter, isAbsolute, join } from 'node:path'

const MAX_OUTPUT_BYTES = 1024 * 1024
const MAX_SHOWN_STDERR = 500
/** A background process may hold the output of one that has ended: it is not waited for. */
const OUTPUT_GRACE_MS = 200
/** A process that ignores SIGTERM is killed after this. */
const KILL_AFTER_MS = 2000

/** What programs get of the node's environment: enough for the desktop, nothing that may be a secret. */
const PASSED =
  /^(PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|TZ|TMPDIR|BROWSER|DISPLAY|XAUTHORITY|WAYLAND_DISPLAY|DBUS_SESSION_BUS_ADDRESS|PULSE_SERVER|LC_[A-Z]+|XDG_[A-Z_]+)$/

const environment = (): NodeJS.ProcessEnv => Object.fromEntries(Object.entries(process.env).filter(([name]) => PASSED.test(name)))

/** What a program came to. */
export interface Executed {
  /** `null` after a signal. */
  exitCode: number | null
  signal: NodeJS.Signals | null
  stdout: Buffer
  stderr: Buffer
  /** Which of the two were longer than what is kept of them. */
  truncated: ('stdout' | 'stderr')[]
}

interface ExecuteOptions {
  signal: AbortSignal
  input?: string | Buffer
  cwd?: string
  maxOutputBytes?: number
  /** Of a program that goes on in the background and would hold its output for ever. */
  ignoresOutput?: boolean
}

/** The program's path; `undefined` where it is not installed. */
export const findProgram = async (name: string): Promise<string | undefined> => {
  const paths = isAbsolute(name) ? [name] : (process.env.PATH ?? '').split(delimiter).map(folder => join(folder, name))
  for (const path of paths) {
    if (await isProgram(path)) return path
  }
  return undefined
}

const isProgram = async (path: string): Promise<boolean> => {
  try {
    await access(path, constants.X_OK)
    return (await stat(path)).isFile()
  } catch {
    return false
  }
}

/** The path of the first of these that is installed; rejects with `platform_unsupported` that names the first. */
export const requireTool = async (...names: [string, ...string[]]): Promise<string> => {
  for (const name of names) {
    const path = await findProgram(name)
    if (path !== undefined) return path
  }
  throw platformUnsupported(`${names.join(' or ')} is not installed on this machine`, names[0])
}

/** Rejects with `platform_unsupported` unless there is an X display and one of the tools. */
export const requireDesktop = async (...tools: [string, ...string[]]): Promise<string> => {
  if (process.platform !== 'linux') throw platformUnsupported(`This command works on Linux with X11, not on ${process.platform}`)
  if ((process.env.DISPLAY ?? '') === '') throw platformUnsupported('There is no X display: DISPLAY is not set')
  return requireTool(...tools)
}

/** Runs a program with these arguments, in a process group of its own, which ends with the signal. No shell is involved. */
export const execute = async (program: string, args: readonly string[], options: ExecuteOptions): Promise<Executed> => {
  const { signal, input, cwd, maxOutputBytes = MAX_OUTPUT_BYTES, ignoresOutput = false } = options
  signal.throwIfAborted()
  const output = ignoresOutput ? 'ignore' : 'pipe'
  const child = spawn(program, args, {
    env: environment(),
    detached: true,
    stdio: ['pipe', output, output],
    ...(cwd === undefined ? {} : { cwd }),
  })
  const stdout = new Output(maxOutputBytes)
  const stderr = new Output(maxOutputBytes)
  child.stdout?.on('data', (chunk: Buffer) => stdout.add(chunk))
  child.stderr?.on('data', (chunk: Buffer) => stderr.add(chunk))
  const end = (): void => endGroup(child)
  signal.addEventListener('abort', end, { once: true })
  try {
    // Where it cannot be started, the exit says so.
    const closed = ignoresOutput ? Promise.resolve() : once(child, 'close').catch(() => undefined)
    const exited = once(child, 'exit') as Promise<[number | null, NodeJS.Signals | null]>
    // A program that reads nothing may be gone before its input is written.
    child.stdin?.on('error', () => undefined).end(input ?? '')
    const [exitCode, exitSignal] = await exited
    await Promise.race([closed, new Promise(resolve => setTimeout(resolve, OUTPUT_GRACE_MS))])
    const truncated = [...(stdout.isTruncated ? (['stdout'] as const) : []), ...(stderr.isTruncated ? (['stderr'] as const) : [])]
    return { exitCode, signal: exitSignal, stdout: stdout.bytes, stderr: stderr.bytes, truncated }
  } catch (error) {
    throw new CommandError('internal_error', `${program} could not be started: ${(error as Error).message}`, { cause: error })
  } finally {
    signal.removeEventListener('abort', end)
    child.stdout?.destroy()
    child.stderr?.destroy()
  }
}

/** Runs a tool and resolves with what it printed; rejects with what it said when it fails. */
export const runTool = async (program: string, args: readonly string[], options: ExecuteOptions): Promise<string> => {
  const { exitCode, stdout, stderr, truncated } = await execute(program, args, options)
  if (exitCode !== 0) throw toolFailed(program, exitCode, stderr)
  if (truncated.includes('stdout')) throw new CommandError('internal_error', `${program} printed more than can be returned`)
  return stdout.toString('utf8')
}

export const toolFailed = (program: string, exitCode: number | null, stderr: Buffer): CommandError => {
  const said = stderr.toString('utf8').trim().slice(-MAX_SHOWN_STDERR)
  return new CommandError('internal_error', `${program} ended with ${exitCode ?? 'a signal'}${said === '' ? '' : `: ${said}`}`)
}

/** Starts a program that is not waited for. Resolves once it runs; rejects when it cannot be started. */
export const launch = async (program: string, args: readonly string[]): Promise<ChildProcess & { pid: number }> => {
  const child = spawn(program, args, { env: environment(), detached: true, stdio: 'ignore' })
  try {
    await once(child, 'spawn')
  } catch (error) {
    throw new CommandError('internal_error', `${program} could not be started: ${(error as Error).message}`, { cause: error })
  }
  child.unref()
  return child as ChildProcess & { pid: number }
}

/** Ends a process with everything that it started in its group; by force when it does not go. */
const endGroup = (child: ChildProcess): void => {
  signalGroup(child.pid, 'SIGTERM')
  const force = setTimeout(() => signalGroup(child.pid, 'SIGKILL'), KILL_AFTER_MS)
  child.once('exit', () => {
    clearTimeout(force)
    // What it left behind in its group goes too.
    signalGroup(child.pid, 'SIGKILL')
  })
}

/** No effect when it has ended already. */
export const signalGroup = (pid: number | undefined, signal: NodeJS.Signals): void => {
  if (pid === undefined) return
  try {
    process.kill(process.platform === 'win32' ? pid : -pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

/** The beginning of what a program prints; the rest is read and dropped, so that it does not wait. */
class Output {
  readonly #chunks: Buffer[] = []
  #room: number
  isTruncated = false

  constructor(maxBytes: number) {
    this.#room = maxBytes
  }

  add(chunk: Buffer): void {
    if (chunk.length > this.#room) this.isTruncated = true
    if (this.#room > 0) this.#chunks.push(chunk.subarray(0, this.#room))
    this.#room -= Math.min(this.#room, chunk.length)
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }
}
