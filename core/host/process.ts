import { spawn, type ChildProcessByStdio } from 'node:child_process'
import type { Readable, Writable } from 'node:stream'
import { Peer, RpcError, type Handlers, type Listeners, type RequestOptions } from '../../sdk/rpc.js'
import {
  PROTOCOL_VERSIONS,
  RpcErrorCode,
  type HostRequests,
  type PluginNotifications,
  type PluginRequests,
  type SharedNotifications,
} from '../../sdk/protocol.js'
import { redactHead } from '../redaction.js'
import { version as hostVersion } from '../version.js'
import type { Launch } from './launch/tier.js'
import { Unfit, type HostLimits } from './policy.js'

export interface ProcessOptions {
  plugin: { id: string; version: string }
  limits: HostLimits
  handlers: Handlers<PluginRequests>
  listeners: Listeners<PluginNotifications>
  /** One line that the plugin wrote to stderr, or to stdout beside the protocol. */
  onLine: (line: string) => void
  /** Versions to offer, newest first. Tests offer others. */
  protocolVersions?: readonly string[]
}

/** How a process ended. */
export interface Ending {
  code: number | null
  signal: NodeJS.Signals | null
}

/** Lines kept to explain an end. */
const LAST_WORDS = 5
/** How long the answers of an ended process that are still in its pipe are waited for. */
const LAST_ANSWERS_MS = 100
/** The same for what it wrote to stderr. */
const LAST_WORDS_MS = 200

type PluginPeer = Peer<HostRequests, PluginRequests, SharedNotifications, PluginNotifications>

/** One running plugin process, from its start to its last output. */
export class PluginProcess {
  readonly pid: number
  readonly startedAt = Date.now()
  readonly exited: Promise<Ending>
  /** The last lines that it wrote. */
  lastWords: string[] = []
  #protocolVersion = ''
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>
  readonly #peer: PluginPeer
  readonly #limits: HostLimits
  readonly #onLine: (line: string) => void
  #ending: Ending | undefined
  #stopping: Promise<Ending> | undefined

  /** Starts the program and shakes hands. Rejects with what went wrong, with the process gone. */
  static async start(launch: Launch, options: ProcessOptions): Promise<PluginProcess> {
    const child = spawn(launch.command, launch.args, { cwd: launch.cwd, env: launch.env, stdio: ['pipe', 'pipe', 'pipe'], detached: true })
    if (child.pid === undefined) throw await spawnFailure(child, launch.command)
    const process = new PluginProcess(child as ChildProcessByStdio<Writable, Readable, Readable> & { pid: number }, options)
    try {
      await process.#shakeHands(launch, options)
      return process
    } catch (error) {
      process.kill()
      const ending = await process.exited
      await endOf(child.stderr, LAST_WORDS_MS)
      if (error instanceof Unfit) throw error
      throw new Error(explainFailure(error, ending, process.lastWords), { cause: error })
    }
  }

  private constructor(child: ChildProcessByStdio<Writable, Readable, Readable> & { pid: number }, options: ProcessOptions) {
    this.pid = child.pid
    this.#child = child
    this.#limits = options.limits
    this.exited = new Promise(resolve => {
      // `exit` tells of the death; `close` would wait for a grandchild that holds stdout.
      child.once('exit', (code, signal) => {
        // The group goes now: afterwards its number may be someone else's.
        this.#signal('SIGKILL')
        this.#ending = { code, signal }
        void endOf(child.stdout, LAST_ANSWERS_MS).then(() => {
          this.#peer.close('the plugin process ended')
          resolve({ code, signal })
        })
      })
    })
    const onLine = (line: string): void => {
      this.lastWords = [...this.lastWords.slice(1 - LAST_WORDS), line]
      options.onLine(line)
    }
    this.#onLine = onLine
    this.#peer = new Peer({
      input: child.stdout,
      output: child.stdin,
      handlers: options.handlers,
      listeners: options.listeners,
      shortenNoise: line => redactHead(line, MAX_NOISE),
      onNoise: line => {
        onLine(`[stdout] ${line}`)
      },
      onClose: reason => {
        if (this.#ending || this.#stopping) return
        onLine(`[gateway] the connection ended: ${reason}`)
        this.kill()
      },
    })
    readLines(child.stderr, onLine)
  }

  /** What the handshake settled on. */
  get protocolVersion(): string {
    return this.#protocolVersion
  }

  get ended(): boolean {
    return this.#ending !== undefined
  }

  /** Whether calls can reach it: not from the moment on when its connection has ended, though the process may still be going. */
  get connected(): boolean {
    return !this.ended && this.#peer.closed === undefined
  }

  /** Whether the gateway has begun to stop it. */
  get stopping(): boolean {
    return this.#stopping !== undefined
  }

  get stats(): PluginPeer['stats'] {
    return this.#peer.stats
  }

  /** Milliseconds since bytes last came. */
  get silentFor(): number {
    return performance.now() - this.#peer.lastReceivedAt
  }

  request<M extends keyof HostRequests>(
    method: M,
    params: HostRequests[M]['params'],
    options?: RequestOptions,
  ): Promise<HostRequests[M]['result']> {
    return this.#peer.request(method, params, options)
  }

  /** The stop ladder: a request, the end of its input, SIGTERM, then SIGKILL to the whole group. Safe to call again. */
  stop(reason: string): Promise<Ending> {
    this.#stopping ??= this.#stop(reason)
    return this.#stopping
  }

  kill(): void {
    this.#signal('SIGKILL')
  }

  async #stop(reason: string): Promise<Ending> {
    const { shutdownRequest, endOfInput, terminate } = this.#limits
    const asked = this.#peer.request(
      'plugin.shutdown',
      { reason },
      { timeoutMs: shutdownRequest, hardTimeoutMs: shutdownRequest, urgent: true },
    )
    const answered = await asked.then(
      () => true,
      () => false,
    )
    if (!answered && !this.ended) this.#onLine('[gateway] it did not answer the request to shut down')
    this.#child.stdin.end()
    if (await this.#endsWithin(endOfInput)) return this.exited
    this.#signal('SIGTERM')
    if (await this.#endsWithin(terminate)) return this.exited
    this.#signal('SIGKILL')
    return this.exited
  }

  async #endsWithin(milliseconds: number): Promise<boolean> {
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<boolean>(resolve => (timer = setTimeout(resolve, milliseconds, false)))
    const ended = await Promise.race([this.exited.then(() => true), late])
    clearTimeout(timer)
    return ended
  }

  /** To the group, which the process leads: its children go with it. */
  #signal(signal: NodeJS.Signals): void {
    if (this.ended) return
    try {
      process.kill(-this.pid, signal)
    } catch {
      // The group is gone already.
    }
  }

  async #shakeHands(launch: Launch, { plugin, limits, protocolVersions = PROTOCOL_VERSIONS }: ProcessOptions): Promise<void> {
    const offer = {
      protocolVersions: [...protocolVersions],
      plugin,
      host: { name: 'agent-gateway', version: hostVersion },
      dataDir: launch.dataDirInPlugin,
    }
    const answer = await this.#peer
      .request('plugin.initialize', offer, { timeoutMs: limits.handshake, hardTimeoutMs: limits.handshake })
      .catch((error: unknown) => {
        // Refused for good, as it is without a common protocol version: another start would only hear the same.
        if (error instanceof RpcError && error.code === RpcErrorCode.rejected)
          throw new Unfit(`it refused the handshake: ${error.message}`, { dependsOnSettings: false })
        throw error
      })
    const chosen = (answer as { protocolVersion?: unknown } | null)?.protocolVersion
    if (typeof chosen !== 'string' || !protocolVersions.includes(chosen))
      throw new Unfit(
        `it chose the protocol version ${String(chosen).slice(0, 50)}, but this gateway speaks ${protocolVersions.join(', ')}`,
        { dependsOnSettings: false },
      )
    this.#protocolVersion = chosen
  }
}

/** Waits, at most so long, for what an ended process still had in a pipe. */
const endOf = async (stream: Readable, limitMs: number): Promise<void> => {
  if (stream.readableEnded || stream.destroyed) return
  let timer: NodeJS.Timeout | undefined
  await Promise.race([
    new Promise(resolve => stream.once('close', resolve).once('end', resolve)),
    new Promise(resolve => (timer = setTimeout(resolve, limitMs))),
  ])
  clearTimeout(timer)
}

const spawnFailure = (child: { once(event: 'error', listener: (error: Error) => void): unknown }, command: string): Promise<Error> =>
  new Promise(resolve => {
    child.once('error', error => {
      resolve(new Error(`${command} could not be started: ${error.message}`))
    })
  })

const explainFailure = (error: unknown, { code, signal }: Ending, tail: string[]): string => {
  const timedOut = error instanceof RpcError && error.code === RpcErrorCode.timeout
  const ended = error instanceof RpcError && error.code === RpcErrorCode.connectionClosed
  const what = timedOut
    ? 'it did not answer the handshake in time'
    : ended
      ? `it ended before the handshake (${signal ?? `code ${String(code)}`})`
      : `the handshake failed: ${(error as Error).message}`
  return tail.length === 0 ? what : `${what}. Its last output: ${tail.join(' | ')}`
}

/** Longest stray line on stdout passed on. */
const MAX_NOISE = 1_024
/** Longest line on stderr passed on. */
const MAX_LINE = 2_000
/** Longest beginning of a line kept until its end comes: more than is passed on, so that a secret at the cut is known as a whole. */
const MAX_KEPT = 64 * 1024

/** Calls `onLine` for each line of the stream; keeps at most one line in memory. */
const readLines = (stream: Readable, onLine: (line: string) => void): void => {
  const pass = (line: string): void => {
    if (line.trim() !== '') onLine(redactHead(line, MAX_LINE))
  }
  let partial = ''
  stream.setEncoding('utf8')
  stream.on('data', (chunk: string) => {
    const [first = '', ...lines] = chunk.split('\n')
    // What comes after the beginning that is kept is dropped, up to the line's end.
    if (partial.length < MAX_KEPT) partial += first
    for (const next of lines) {
      pass(partial)
      partial = next
    }
    if (partial.length > MAX_KEPT) partial = partial.slice(0, MAX_KEPT)
  })
  stream.on('end', () => {
    pass(partial)
  })
  stream.on('error', () => undefined)
}
