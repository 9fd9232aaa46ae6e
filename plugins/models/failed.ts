import { upstreamUnavailable, type GatewayError } from '../../core/errors.js'
import { redact } from '../../core/redaction.js'

const MAX_REASON_LENGTH = 300

/** A provider that did not answer, with what it said itself. */
export const failed = (name: string, reason: string, cause?: unknown): GatewayError =>
  upstreamUnavailable(`The model provider "${name}" failed: ${redact(reason).slice(0, MAX_REASON_LENGTH)}`, cause)
