import { RpcErrorCode, type ProgressParams } from './protocol.js'
import { RpcError } from './rpcError.js'

/** How long a call may take when its caller does not say. */
export const DEFAULT_TIMEOUT_MS = 30_000
/** How far progress can extend a call when its caller does not say. */
export const DEFAULT_HARD_TIMEOUT_MS = 600_000
const MAX_TIMER_MS = 2 ** 31 - 1

/** What a caller may set for one request. */
export interface RequestOptions {
  /** Milliseconds until the call fails with `timeout`; starts again with each `$/progress`. Default 30,000. Waiting for a free place counts. */
  timeoutMs?: number
  /** Milliseconds after which progress extends the call no more. Default 600,000, at least `timeoutMs`. */
  hardTimeoutMs?: number
  /** Gives the call up: the other side is told, the promise rejects with `cancelled`. */
  signal?: AbortSignal
  /** Called for each `$/progress` of the other side. */
  onProgress?: (progress: ProgressParams) => void
  /** Passes the queue and its limits: for the few calls of a supervisor, such as a ping. */
  urgent?: boolean
}

/** One call. A class of few fields: this is made for every request. */
class Call {
  readonly id: number
  readonly method: string
  readonly options: RequestOptions
  readonly resolve: (result: unknown) => void
  readonly reject: (error: Error) => void
  /** Emptied once sent. */
  frame: string
  deadline: number
  readonly startedAt: number
  onAbort: (() => void) | undefined = undefined

  constructor(
    id: number,
    method: string,
    frame: string,
    options: RequestOptions,
    resolve: (result: unknown) => void,
    reject: (error: Error) => void,
  ) {
    this.id = id
    this.method = method
    this.options = options
    this.resolve = resolve
    this.reject = reject
    this.frame = frame
    this.startedAt = performance.now()
    this.deadline = this.startedAt + this.timeoutMs
  }

  get timeoutMs(): number {
    return this.options.timeoutMs ?? DEFAULT_TIMEOUT_MS
  }

  get sent(): boolean {
    return this.frame === ''
  }

  /** Progress came: the time starts again, within the hard end. */
  extend(): void {
    const hardEnd = this.startedAt + Math.max(this.timeoutMs, this.options.hardTimeoutMs ?? DEFAULT_HARD_TIMEOUT_MS)
    this.deadline = Math.min(performance.now() + this.timeoutMs, hardEnd)
  }

  forgetSignal(): void {
    if (this.onAbort) this.options.signal?.removeEventListener('abort', this.onAbort)
  }
}

/** What the calls need of their connection. */
export interface CallWire {
  send(frame: string): void
  /** Tells the other side that nobody waits for `id` any more. */
  cancel(id: number): void
}

/**
 * The calling half of a peer: calls under way, calls that wait for a place, and their deadlines. One timer serves all
 * of them; it is armed for the earliest deadline known and looks at the rest when it fires.
 */
export class OutgoingCalls {
  readonly #wire: CallWire
  readonly #maxPending: number
  readonly #maxWaiting: number
  readonly #pending = new Map<number, Call>()
  readonly #waiting = new Set<Call>()
  #timer: NodeJS.Timeout | undefined
  #timerAt = Infinity
  #lastId = 0
  /** Characters of the frames that wait for a place. */
  waitingSize = 0
  /** Answers to calls that are not under way (any more): late, given twice, or never asked for. */
  lateReplies = 0

  constructor(wire: CallWire, maxPending: number, maxWaiting: number) {
    this.#wire = wire
    this.#maxPending = maxPending
    this.#maxWaiting = maxWaiting
  }

  get pendingCount(): number {
    return this.#pending.size
  }

  get waitingCount(): number {
    return this.#waiting.size
  }

  /** `buildFrame` gets the id and may throw; nothing is under way then. */
  start(method: string, buildFrame: (id: number) => string, options: RequestOptions): Promise<unknown> {
    if (options.signal?.aborted) return Promise.reject(cancelled(method))
    const mustWait = options.urgent !== true && (this.#pending.size >= this.#maxPending || this.#waiting.size > 0)
    if (mustWait && this.#waiting.size >= this.#maxWaiting) return Promise.reject(this.#busy(method))
    return new Promise((resolve, reject) => {
      const id = ++this.#lastId
      const call = new Call(id, method, buildFrame(id), options, resolve, reject)
      if (options.signal) {
        call.onAbort = () => this.#giveUp(call, cancelled(method))
        options.signal.addEventListener('abort', call.onAbort, { once: true })
      }
      this.#watch(call.deadline, call.startedAt)
      if (mustWait) {
        this.#waiting.add(call)
        this.waitingSize += call.frame.length
      } else this.#send(call)
    })
  }

  /** `value` is the result, or the error when `failed`. */
  settle(id: unknown, value: unknown, failed: boolean): void {
    const call = this.#pending.get(id as number)
    if (call === undefined) {
      this.lateReplies++
      return
    }
    this.#remove(call)
    if (failed) call.reject(value as Error)
    else call.resolve(value)
  }

  progress(progress: ProgressParams): void {
    const call = this.#pending.get(progress.id as number)
    if (call === undefined) return
    call.extend()
    call.options.onProgress?.(progress)
  }

  /** Rejects everything, at once. */
  rejectAll(error: () => RpcError): void {
    clearTimeout(this.#timer)
    const calls = [...this.#pending.values(), ...this.#waiting]
    this.#pending.clear()
    this.#waiting.clear()
    this.waitingSize = 0
    for (const call of calls) {
      call.forgetSignal()
      call.reject(error())
    }
  }

  #send(call: Call): void {
    this.#pending.set(call.id, call)
    const { frame } = call
    call.frame = ''
    this.#wire.send(frame)
  }

  /** Removes a call that has ended, and gives its place to the one that waits longest. */
  #remove(call: Call): void {
    call.forgetSignal()
    if (this.#waiting.delete(call)) this.waitingSize -= call.frame.length
    else this.#pending.delete(call.id)
    for (const next of this.#waiting) {
      if (this.#pending.size >= this.#maxPending) break
      this.#waiting.delete(next)
      this.waitingSize -= next.frame.length
      this.#send(next)
    }
    if (this.#pending.size === 0) this.#timer?.unref()
  }

  #giveUp(call: Call, error: RpcError): void {
    const { sent } = call
    this.#remove(call)
    if (sent) this.#wire.cancel(call.id)
    call.reject(error)
  }

  #watch(deadline: number, now: number): void {
    if (deadline >= this.#timerAt) {
      this.#timer?.ref()
      return
    }
    clearTimeout(this.#timer)
    this.#timerAt = deadline
    this.#timer = setTimeout(() => this.#expire(), Math.min(Math.max(1, deadline - now), MAX_TIMER_MS))
  }

  #expire(): void {
    this.#timer = undefined
    this.#timerAt = Infinity
    const now = performance.now()
    let next = Infinity
    const late: Call[] = []
    for (const calls of [this.#pending.values(), this.#waiting]) {
      for (const call of calls) {
        if (call.deadline <= now) late.push(call)
        else next = Math.min(next, call.deadline)
      }
    }
    for (const call of late) this.#giveUp(call, timedOut(call))
    if (next < Infinity) this.#watch(next, now)
  }

  #busy(method: string): RpcError {
    const under = `${this.#pending.size} calls are under way and ${this.#waiting.size} wait`
    return new RpcError(RpcErrorCode.busy, `${method}: ${under}, try again later`, { retryable: true, retryAfterMs: 1000 })
  }
}

const cancelled = (method: string): RpcError => new RpcError(RpcErrorCode.cancelled, `${method} was cancelled by its caller`)

function timedOut(call: Call): RpcError {
  const what = call.sent ? 'was not answered' : 'found no free place'
  return new RpcError(RpcErrorCode.timeout, `${call.method} ${what} within ${call.timeoutMs} ms`, { retryable: true })
}
