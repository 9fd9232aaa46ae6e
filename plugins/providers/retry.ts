import { PluginCrashed } from '../../core/host/crash.js'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'

/** A question that ends the process is asked once more, in case that something else was the reason, and never again. */
const MAX_CRASHES = 2
/** Reloads, restarts and refusals over one question. */
const MAX_OTHER_FAILURES = 4
/** When a plugin that asks for patience does not say for how long, and the longest that it gets. */
const DEFAULT_DELAY_MS = 1_000
const MAX_DELAY_MS = 30_000

/** What has gone wrong with one question so far. */
export interface Failures {
  readonly crashes: number
  readonly others: number
}

/** What follows a failure: the question is asked again after a while, or `undefined`: never. */
export const afterFailure = (error: unknown, { crashes, others }: Failures): { delayMs: number; failures: Failures } | undefined => {
  if (error instanceof PluginCrashed)
    return crashes + 1 < MAX_CRASHES ? { delayMs: 0, failures: { crashes: crashes + 1, others } } : undefined
  if (!(error instanceof RpcError) || !error.retryable || others + 1 >= MAX_OTHER_FAILURES) return undefined
  // What took all of its time would take it again.
  if (error.code === RpcErrorCode.timeout) return undefined
  const isGone = error.code === RpcErrorCode.connectionClosed
  const delayMs = isGone ? 0 : Math.min(error.retryAfterMs ?? DEFAULT_DELAY_MS, MAX_DELAY_MS)
  return { delayMs, failures: { crashes, others: others + 1 } }
}
