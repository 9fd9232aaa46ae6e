import { GatewayError } from '../errors.js'
import type { Log } from '../log.js'
import { redactData, redactHead } from '../redaction.js'

export interface Failure {
  status: number
  headers: Record<string, string>
  body: string
}

const MAX_MESSAGE_LENGTH = 2000

/** Any error as the contract's envelope. What was not meant for the caller is logged with the request's id, never shown. */
export const describeFailure = (error: unknown, requestId: string, log: Log): Failure => {
  const known = error instanceof GatewayError ? error : unexpected(error, requestId, log)
  if (known.status >= 500) log.warn({ err: known, requestId }, known.message)
  const said = { message: redactHead(known.message, MAX_MESSAGE_LENGTH), details: redactData(known.details) }
  // The code is one of ours: a secret that happens to be the same word must not change it.
  const envelope = { error: { code: known.code, ...said, requestId } }
  return { status: known.status, headers: known.headers, body: JSON.stringify(envelope) }
}

const unexpected = (error: unknown, requestId: string, log: Log): GatewayError => {
  log.error({ err: error, requestId }, 'a request failed unexpectedly')
  return new GatewayError('internal_error', `Something went wrong here. Quote the request id ${requestId} when you report it`)
}
