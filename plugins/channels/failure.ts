import { GatewayError } from '../../core/errors.js'
import { redact } from '../../core/redaction.js'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'

const MAX_MESSAGE_LENGTH = 500

/**
 * Why a delivery or a connection failed. `crashed`: the process died under it; `busy`: it was not tried; `temporary`:
 * may work later; `refused`: never will; `unsupported`: the adapter has no such method; `broken`: the adapter itself
 * made a mistake.
 */
export interface Failure {
  kind: 'crashed' | 'busy' | 'temporary' | 'refused' | 'unsupported' | 'broken'
  /** For the administrator, without secrets. */
  message: string
  retryAfterMs?: number
}

/** Reads what a call to an adapter, or to chat, was rejected with. */
export const readFailure = (error: unknown): Failure => {
  const message = redact(error instanceof Error ? error.message : String(error)).slice(0, MAX_MESSAGE_LENGTH)
  if (error instanceof GatewayError) return ownFailure(error, message)
  if (!(error instanceof RpcError)) return { kind: 'broken', message }
  const retryAfterMs = error.retryAfterMs
  return { kind: kindOf(error), message, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}

/** What the gateway itself cannot take in now was not tried: waiting for it is no failure of the delivery. */
const ownFailure = ({ status, headers }: GatewayError, message: string): Failure => {
  const retryAfterMs = Number(headers['Retry-After'] ?? 0) * 1000
  if (status === 429 || status === 503) return { kind: 'busy', message, retryAfterMs }
  return { kind: status < 500 ? 'refused' : 'temporary', message }
}

const kindOf = (error: RpcError): Failure['kind'] => {
  switch (error.code) {
    case RpcErrorCode.connectionClosed:
      return 'crashed'
    case RpcErrorCode.busy:
      return 'busy'
    case RpcErrorCode.methodNotFound:
      return 'unsupported'
    case RpcErrorCode.rejected:
      return 'refused'
    default:
      if (error.data?.retryable === false) return 'refused'
      return error.retryable ? 'temporary' : 'broken'
  }
}
