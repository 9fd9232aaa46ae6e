import { FrameWriter, type PeerOutput } from './frameWriter.js'
import { IncomingCalls, isRequestId, type AnyHandler, type HandlerContext, type RequestId } from './incomingCalls.js'
import { LineReader } from './lineReader.js'
import { Noise } from './noise.js'
import { OutgoingCalls, type RequestOptions } from './outgoingCalls.js'
import { MAX_FRAME_BYTES, RpcErrorCode, type Method, type ProgressParams } from './protocol.js'
import { readRpcError, RpcError } from './rpcError.js'

export { RpcError, rejected, temporary } from './rpcError.js'
export { DEFAULT_HARD_TIMEOUT_MS, DEFAULT_TIMEOUT_MS, type RequestOptions } from './outgoingCalls.js'
export type { PeerOutput } from './frameWriter.js'
export type { HandlerContext } from './incomingCalls.js'

/** A list of methods, such as `HostRequests` and `PluginRequests` of the protocol. */
export type MethodMap<Map> = { [M in keyof Map]: Method<unknown, unknown> }

/** Answers to the other side's requests, by method. Throw an `RpcError` to choose the code; anything else is an internal error. */
export type Handlers<Serves extends MethodMap<Serves>> = {
  [M in keyof Serves]?: (params: Serves[M]['params'], context: HandlerContext) => Serves[M]['result'] | Promise<Serves[M]['result']>
}

/** What to do with the other side's notifications, by method. */
export type Listeners<Hears> = { [M in keyof Hears]?: (params: Hears[M]) => void }

/** What a peer reads: a child's stdout, `process.stdin`, a socket. */
export interface PeerInput {
  on(event: 'data', listener: (chunk: Buffer | string) => void): unknown
  on(event: 'end' | 'close', listener: () => void): unknown
  on(event: 'error', listener: (error: Error) => void): unknown
}

export interface PeerOptions<Serves extends MethodMap<Serves>, Hears> {
  input: PeerInput
  output: PeerOutput
  handlers?: Handlers<Serves>
  listeners?: Listeners<Hears>
  /** Requests under way at once; more wait. Default 256. */
  maxPending?: number
  /** Requests that may wait; more are refused with `busy`. Default 1,024. */
  maxWaiting?: number
  /** The other side's requests answered at once; more are refused with `busy`. Default 256. */
  maxRunning?: number
  /** Methods answered even then, for a supervisor's ping. */
  alwaysServed?: readonly string[]
  /** Largest line, in bytes, either way. Default 16 MiB. */
  maxFrameBytes?: number
  /**
   * Unsent bytes from which new work is refused with `busy`, in both directions, and notifications are left out; at
   * twice as many the connection is closed. Default 64 MiB.
   */
  maxUnsentBytes?: number
  /** A line that is no message, cut to 1,024 characters, at most 20 a second. */
  onNoise?: (line: string) => void
  /** Cuts a line of noise that is too long; by default to its first 1,024 characters. For one who masks secrets in it first. */
  shortenNoise?: (line: string) => string
  /** A handler or listener threw something that is no `RpcError`. */
  onHandlerError?: (method: string, error: unknown) => void
  /** Whether the caller is told the message of such an error. Default false: it is told that there was one. */
  exposeErrors?: boolean
  /** Called once, with why the connection ended. */
  onClose?: (reason: string) => void
}

/**
 * One end of a JSON-RPC 2.0 connection, one JSON document a line. Both ends call, answer and notify; the gateway's
 * host and a plugin's runtime use this same class. `Calls` are the other side's methods and `Serves` one's own,
 * `Tells` the notifications sent and `Hears` those received.
 */
export class Peer<Calls extends MethodMap<Calls>, Serves extends MethodMap<Serves>, Tells = object, Hears = object> {
  readonly #writer: FrameWriter
  readonly #reader: LineReader
  readonly #noise: Noise
  readonly #outgoing: OutgoingCalls
  readonly #incoming: IncomingCalls
  readonly #listeners: ReadonlyMap<string, (params: unknown) => void>
  readonly #options: PeerOptions<Serves, Hears>
  readonly #maxFrameBytes: number
  readonly #maxUnsentBytes: number
  #closed: string | undefined
  #lastReceivedAt = performance.now()

  constructor(options: PeerOptions<Serves, Hears>) {
    this.#options = options
    this.#maxFrameBytes = options.maxFrameBytes ?? MAX_FRAME_BYTES
    this.#maxUnsentBytes = options.maxUnsentBytes ?? 64 * 1024 * 1024
    this.#noise = new Noise(options.onNoise, options.shortenNoise)
    this.#writer = new FrameWriter(options.output, 2 * this.#maxUnsentBytes, () => this.close('the other side does not read'))
    this.#outgoing = new OutgoingCalls(
      { send: frame => this.#writer.write(frame), cancel: id => this.#tell('$/cancel', { id }) },
      options.maxPending ?? 256,
      options.maxWaiting ?? 1024,
    )
    this.#incoming = new IncomingCalls(
      {
        reply: (id, result) => this.#reply(id, result),
        replyError: (id, error) => this.#replyError(id, error),
        progress: params => this.#tell('$/progress', params),
        isCongested: () => this.unsentBytes > this.#maxUnsentBytes,
        onHandlerError: (method, error) => this.#handlerError(method, error),
      },
      new Map(Object.entries(options.handlers ?? {}) as [string, AnyHandler][]),
      options.maxRunning ?? 256,
      new Set(options.alwaysServed),
    )
    this.#listeners = new Map(Object.entries(options.listeners ?? {}) as [string, (params: unknown) => void][])
    this.#reader = new LineReader(
      this.#maxFrameBytes,
      line => this.#receive(line),
      () => this.close('frame too large'),
    )
    this.#listen(options.input, options.output)
  }

  /** Why the connection ended, once it has. */
  get closed(): string | undefined {
    return this.#closed
  }

  /** Bytes (about: characters where no byte was counted yet) given to this peer that the other side has not taken. It grows while the other side does not read. */
  get unsentBytes(): number {
    return this.#writer.unsentBytes + this.#outgoing.waitingSize
  }

  /** When bytes last came, on `performance.now()`'s clock. */
  get lastReceivedAt(): number {
    return this.#lastReceivedAt
  }

  /** Counts for supervision: calls under way, calls that wait, handlers that run, answers nobody waited for, lines that were no message. */
  get stats(): { pending: number; waiting: number; running: number; lateReplies: number; noise: number } {
    return {
      pending: this.#outgoing.pendingCount,
      waiting: this.#outgoing.waitingCount,
      running: this.#incoming.runningCount,
      lateReplies: this.#outgoing.lateReplies,
      noise: this.#noise.count,
    }
  }

  /**
   * Calls a method of the other side. Rejects with an `RpcError`: the other side's own, or `timeout`, `cancelled`,
   * `busy` (too much waits or is unsent), `connectionClosed`, or `rejected` when the params are larger than a frame
   * or cannot be written as JSON.
   */
  request<M extends keyof Calls & string>(
    method: M,
    params: Calls[M]['params'],
    options: RequestOptions = {},
  ): Promise<Calls[M]['result']> {
    if (this.#closed !== undefined) return Promise.reject(connectionClosed(this.#closed))
    if (this.unsentBytes > this.#maxUnsentBytes && options.urgent !== true) {
      const message = `${method}: the other side does not read, ${this.unsentBytes} bytes are unsent`
      return Promise.reject(new RpcError(RpcErrorCode.busy, message, { retryable: true, retryAfterMs: 1000 }))
    }
    const build = (id: number): string =>
      this.#checkSize(method, `{"jsonrpc":"2.0","id":${id},"method":${JSON.stringify(method)},"params":${toJson(method, params)}}`)
    return this.#outgoing.start(method, build, options)
  }

  /** Tells the other side; nobody answers. False when it was left out: the connection is closed or too much is unsent. Throws when the params cannot be sent. */
  notify<M extends keyof Tells & string>(method: M, params: Tells[M]): boolean {
    return this.#tell(method, params)
  }

  /** Resolves once everything sent so far was handed to the operating system, or the connection is gone. */
  flush(): Promise<void> {
    return this.#writer.drain()
  }

  /** Ends the connection: every call under way or waiting is rejected at once, handlers' signals are aborted. The streams are left to their owner. */
  close(reason: string): void {
    if (this.#closed !== undefined) return
    this.#writer.close()
    this.#closed = reason
    this.#noise.flush()
    this.#outgoing.rejectAll(() => connectionClosed(reason))
    this.#incoming.cancelAll(connectionClosed(reason))
    this.#options.onClose?.(reason)
  }

  #listen(input: PeerInput, output: PeerOutput): void {
    input.on('data', chunk => {
      if (this.#closed !== undefined) return
      this.#lastReceivedAt = performance.now()
      this.#reader.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
    })
    input.on('end', () => this.close('the other side ended the connection'))
    input.on('close', () => this.close('the other side ended the connection'))
    input.on('error', error => this.close(`reading failed: ${error.message}`))
    output.on('error', error => this.close(`writing failed: ${error.message}`))
    output.on('close', () => this.close('the other side ended the connection'))
  }

  #receive(line: string): void {
    if (this.#closed !== undefined) return
    let message: unknown
    try {
      message = parse(line)
    } catch {
      if (line.trim() !== '') this.#noise.report(line)
      return
    }
    if (Array.isArray(message)) {
      this.#noise.report(line)
      this.#replyError(null, new RpcError(RpcErrorCode.invalidRequest, 'Batches are not taken: send one message a line'))
      return
    }
    const { jsonrpc, id, method, params, result, error } = (message ?? {}) as Record<string, unknown>
    if (jsonrpc !== '2.0') this.#noise.report(line)
    else if (typeof method === 'string') this.#receiveCall(line, id, method, params)
    else if (id !== undefined && error !== undefined && error !== null) this.#outgoing.settle(id, readRpcError(error), true)
    else if (id !== undefined && result !== undefined) this.#outgoing.settle(id, result, false)
    else this.#noise.report(line)
  }

  #receiveCall(line: string, id: unknown, method: string, params: unknown): void {
    if (id === undefined) this.#hear(line, method, params)
    else if (isRequestId(id)) this.#incoming.serve(id, method, params)
    else {
      this.#noise.report(line)
      this.#replyError(null, new RpcError(RpcErrorCode.invalidRequest, 'An id is a number or a string of at most 256 characters'))
    }
  }

  #hear(line: string, method: string, params: unknown): void {
    try {
      if (method === '$/cancel' || method === '$/progress') this.#hearOfCall(method, params)
      const listener = this.#listeners.get(method)
      if (listener) listener(params ?? {})
      else if (!method.startsWith('$/')) this.#noise.report(line)
    } catch (error) {
      this.#options.onHandlerError?.(method, error)
    }
  }

  #hearOfCall(method: '$/cancel' | '$/progress', params: unknown): void {
    const { id } = (params ?? {}) as { id?: unknown }
    if (!isRequestId(id)) return
    if (method === '$/cancel') this.#incoming.cancel(id)
    else this.#outgoing.progress(params as ProgressParams)
  }

  #handlerError(method: string, error: unknown): RpcError {
    this.#options.onHandlerError?.(method, error)
    const detail = this.#options.exposeErrors === true ? `: ${error instanceof Error ? error.message : String(error)}` : ''
    return new RpcError(RpcErrorCode.internalError, `${method} failed${detail}`)
  }

  #reply(id: RequestId | null, result: unknown): void {
    try {
      this.#writer.write(
        this.#checkSize('The answer', `{"jsonrpc":"2.0","id":${JSON.stringify(id)},"result":${toJson('The answer', result)}}`),
      )
    } catch (error) {
      this.#replyError(id, error as RpcError)
    }
  }

  #replyError(id: RequestId | null, { code, message, data }: RpcError): void {
    this.#writer.write(JSON.stringify({ jsonrpc: '2.0', id, error: { code, message: message.slice(0, 4096), ...(data ? { data } : {}) } }))
  }

  #tell(method: string, params: unknown): boolean {
    if (this.#closed !== undefined || this.unsentBytes > this.#maxUnsentBytes) return false
    this.#writer.write(this.#checkSize(method, `{"jsonrpc":"2.0","method":${JSON.stringify(method)},"params":${toJson(method, params)}}`))
    return true
  }

  #checkSize(what: string, frame: string): string {
    if (frame.length * 3 <= this.#maxFrameBytes) return frame
    const bytes = Buffer.byteLength(frame)
    if (bytes <= this.#maxFrameBytes) return frame
    throw new RpcError(RpcErrorCode.rejected, `${what}: ${bytes} bytes are more than a frame may have (${this.#maxFrameBytes})`, {
      retryable: false,
    })
  }
}

const connectionClosed = (reason: string): RpcError =>
  new RpcError(RpcErrorCode.connectionClosed, `The connection was closed: ${reason}`, { retryable: true })

function toJson(what: string, value: unknown): string {
  try {
    const json: unknown = JSON.stringify(value)
    // A function or symbol has no JSON at all.
    return typeof json === 'string' ? json : 'null'
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error)
    throw new RpcError(RpcErrorCode.rejected, `${what} cannot be written as JSON: ${why}`, { retryable: false }, error)
  }
}

/** An own `__proto__` key is dropped: copied with `Object.assign`, it would become the copy's prototype. */
function parse(line: string): unknown {
  if (!line.includes('__proto__') && !line.includes('\\u005')) return JSON.parse(line)
  return JSON.parse(line, (key, value: unknown) => (key === '__proto__' ? undefined : value))
}
