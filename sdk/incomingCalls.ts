import { RpcErrorCode, type ProgressParams } from './protocol.js'
import { RpcError } from './rpcError.js'

/** Progress more often than this is left out: it only has to keep the call alive. */
const PROGRESS_INTERVAL_MS = 100
const MAX_ID_LENGTH = 256

/** An id a request may have. Kept apart by type, so `1` and `"1"` are two requests. */
export type RequestId = number | string

/** What a request's handler gets besides its params. */
export interface HandlerContext {
  /** Aborted when the caller gives up or the connection ends. */
  readonly signal: AbortSignal
  /** Starts the caller's timeout again, within its hard end. `percent` is 0 to 100. At most ten a second are sent. */
  readonly progress: (percent?: number, message?: string) => void
}

export type AnyHandler = (params: unknown, context: HandlerContext) => unknown

/** What the serving half needs of its connection. */
export interface ServeWire {
  reply(id: RequestId | null, result: unknown): void
  replyError(id: RequestId | null, error: RpcError): void
  progress(params: ProgressParams): void
  /** Too much unsent: new work is refused. */
  isCongested(): boolean
  /** A handler threw something that is no RpcError. Returns what its caller is told. */
  onHandlerError(method: string, error: unknown): RpcError
}

export function isRequestId(id: unknown): id is RequestId {
  return typeof id === 'number' ? Number.isFinite(id) : typeof id === 'string' && id.length <= MAX_ID_LENGTH
}

/** A request being answered. The abort controller is made when a handler first looks at the signal: most never do. */
class Running implements HandlerContext {
  readonly id: RequestId
  readonly #wire: ServeWire
  #controller: AbortController | undefined
  #reason: RpcError | undefined
  #lastProgress = -Infinity

  constructor(id: RequestId, wire: ServeWire) {
    this.id = id
    this.#wire = wire
  }

  get cancelled(): boolean {
    return this.#reason !== undefined
  }

  get signal(): AbortSignal {
    this.#controller ??= new AbortController()
    if (this.#reason && !this.#controller.signal.aborted) this.#controller.abort(this.#reason)
    return this.#controller.signal
  }

  cancel(reason: RpcError): void {
    this.#reason = reason
    this.#controller?.abort(reason)
  }

  get progress(): (percent?: number, message?: string) => void {
    return (percent, message) => this.#sendProgress(percent, message)
  }

  #sendProgress(percent: number | undefined, message: string | undefined): void {
    const now = performance.now()
    if (this.cancelled || now - this.#lastProgress < PROGRESS_INTERVAL_MS) return
    this.#lastProgress = now
    this.#wire.progress({
      id: this.id,
      ...(percent === undefined ? {} : { percent: Math.min(100, Math.max(0, percent)) }),
      ...(message === undefined ? {} : { message }),
    })
  }
}

/** The serving half of a peer: handlers that run, how many may, and their cancellation. */
export class IncomingCalls {
  readonly #wire: ServeWire
  readonly #handlers: ReadonlyMap<string, AnyHandler>
  readonly #maxRunning: number
  readonly #alwaysServed: ReadonlySet<string>
  readonly #running = new Map<RequestId, Running>()

  constructor(wire: ServeWire, handlers: ReadonlyMap<string, AnyHandler>, maxRunning: number, alwaysServed: ReadonlySet<string>) {
    this.#wire = wire
    this.#handlers = handlers
    this.#maxRunning = maxRunning
    this.#alwaysServed = alwaysServed
  }

  get runningCount(): number {
    return this.#running.size
  }

  serve(id: RequestId, method: string, params: unknown): void {
    const refusal = this.#refuse(id, method, params)
    if (refusal) {
      this.#wire.replyError(id, refusal)
      return
    }
    const handler = this.#handlers.get(method) as AnyHandler
    const running = new Running(id, this.#wire)
    let result: unknown
    try {
      result = handler(params ?? {}, running)
    } catch (error) {
      this.#fail(running, method, error)
      return
    }
    if (!isThenable(result)) {
      this.#wire.reply(id, result)
      return
    }
    this.#running.set(id, running)
    result.then(
      value => {
        this.#running.delete(id)
        if (!running.cancelled) this.#wire.reply(id, value)
      },
      (error: unknown) => {
        this.#running.delete(id)
        this.#fail(running, method, error)
      },
    )
  }

  cancel(id: RequestId): void {
    this.#running.get(id)?.cancel(new RpcError(RpcErrorCode.cancelled, 'The caller gave the call up'))
  }

  cancelAll(reason: RpcError): void {
    for (const running of this.#running.values()) running.cancel(reason)
  }

  #refuse(id: RequestId, method: string, params: unknown): RpcError | undefined {
    if (!this.#handlers.has(method)) return new RpcError(RpcErrorCode.methodNotFound, `There is no method ${quote(method)}`)
    if (params !== undefined && (typeof params !== 'object' || params === null || Array.isArray(params))) {
      return new RpcError(RpcErrorCode.invalidParams, `${quote(method)}: params must be an object`)
    }
    if (this.#running.has(id)) return new RpcError(RpcErrorCode.invalidRequest, `The id ${quote(id)} is already under way`)
    if (this.#alwaysServed.has(method)) return undefined
    if (this.#running.size >= this.#maxRunning) return busy(method, `${this.#running.size} calls are under way`)
    if (this.#wire.isCongested()) return busy(method, 'too many answers were not read yet')
    return undefined
  }

  #fail(running: Running, method: string, error: unknown): void {
    if (running.cancelled) return
    this.#wire.replyError(running.id, error instanceof RpcError ? error : this.#wire.onHandlerError(method, error))
  }
}

const busy = (method: string, why: string): RpcError =>
  new RpcError(RpcErrorCode.busy, `${method}: ${why}, try again later`, { retryable: true, retryAfterMs: 1000 })

const isThenable = (value: unknown): value is PromiseLike<unknown> =>
  typeof value === 'object' && value !== null && typeof (value as { then?: unknown }).then === 'function'

const quote = (value: string | number): string => JSON.stringify(value).slice(0, 100)
