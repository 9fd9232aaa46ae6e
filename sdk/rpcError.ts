import { RpcErrorCode, type RpcErrorData } from './protocol.js'

const retryableCodes: ReadonlySet<number> = new Set([
  RpcErrorCode.busy,
  RpcErrorCode.timeout,
  RpcErrorCode.connectionClosed,
  RpcErrorCode.temporary,
])

/** What a failed call rejects with, and what a handler throws to choose the code its caller sees. */
export class RpcError extends Error {
  /** One of `RpcErrorCode`, or a code of the other side's own. */
  readonly code: number
  readonly data: RpcErrorData | undefined

  constructor(code: number, message: string, data?: RpcErrorData, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'RpcError'
    this.code = code
    this.data = data
  }

  /** Whether the same call may succeed later: as the other side said, else as the code implies. */
  get retryable(): boolean {
    return this.data?.retryable ?? retryableCodes.has(this.code)
  }

  /** Milliseconds to wait before trying again, when the other side said so. */
  get retryAfterMs(): number | undefined {
    return this.data?.retryAfterMs
  }
}

/** For a handler: understood and refused for good, retrying cannot help. `message` is shown to the administrator. */
export const rejected = (message: string, cause?: unknown): RpcError =>
  new RpcError(RpcErrorCode.rejected, message, { retryable: false }, cause)

/** For a handler: failed now, may work later; `retryAfterMs` when the platform said when. */
export const temporary = (message: string, options: { retryAfterMs?: number; cause?: unknown } = {}): RpcError =>
  new RpcError(
    RpcErrorCode.temporary,
    message,
    options.retryAfterMs === undefined ? { retryable: true } : { retryable: true, retryAfterMs: options.retryAfterMs },
    options.cause,
  )

/** Reads `error` of an answer. The other side may send anything: what is not of the right shape is left out. */
export function readRpcError(error: unknown): RpcError {
  const { code, message, data } = (typeof error === 'object' && error !== null ? error : {}) as Record<string, unknown>
  const text = typeof message === 'string' ? message.slice(0, 4096) : 'The other side answered with an error that has no message'
  return new RpcError(Number.isInteger(code) ? (code as number) : RpcErrorCode.internalError, text, readErrorData(data))
}

function readErrorData(data: unknown): RpcErrorData | undefined {
  if (typeof data !== 'object' || data === null) return undefined
  const { retryable, retryAfterMs } = data as Record<string, unknown>
  const read: RpcErrorData = {}
  if (typeof retryable === 'boolean') read.retryable = retryable
  if (typeof retryAfterMs === 'number' && retryAfterMs >= 0 && Number.isFinite(retryAfterMs)) read.retryAfterMs = retryAfterMs
  return read
}
