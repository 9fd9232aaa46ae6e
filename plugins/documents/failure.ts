import { GatewayError } from '../../core/errors.js'
import { PluginCrashed } from '../../core/host/crash.js'
import { isDiskFull } from '../../core/files.js'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'

/** When a plugin that asks for patience does not say for how long, and the longest that it gets. */
const DEFAULT_DELAY_MS = 5_000
const MAX_DELAY_MS = 600_000
/** What the gateway itself cannot do now, for a full disk or a store out of reach, says nothing about the document. */
const OWN_DELAY_MS = 30_000

/**
 * What follows an extraction that did not work out. `crashed`: the plugin's process died under it; `gone`: the gateway
 * ended the process, which says nothing about the document; `later`: it may work after a while; `final`: it never will.
 */
export type Verdict = { kind: 'crashed' } | { kind: 'gone' } | { kind: 'later'; delayMs: number; counts: boolean } | { kind: 'final' }

export const judge = (error: unknown): Verdict => {
  if (isDiskFull(error) || (error instanceof GatewayError && error.status === 503))
    return { kind: 'later', delayMs: OWN_DELAY_MS, counts: false }
  if (error instanceof PluginCrashed) return { kind: 'crashed' }
  if (!(error instanceof RpcError)) return { kind: 'final' }
  if (error.code === RpcErrorCode.connectionClosed) return { kind: 'gone' }
  // A document that has kept a plugin busy for the whole of its time would do so again.
  if (error.code === RpcErrorCode.timeout || !error.retryable) return { kind: 'final' }
  return { kind: 'later', delayMs: Math.min(error.retryAfterMs ?? DEFAULT_DELAY_MS, MAX_DELAY_MS), counts: true }
}
