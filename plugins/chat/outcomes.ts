import type { ErrorCode } from '../../core/errors.js'
import type { Outcome } from './records.js'

/** A failed task, with a message in its session that says so. */
export const failedOutcome = (code: ErrorCode, message: string): Outcome => {
  const text = `This could not be answered. ${message}`
  return { status: 'failed', messages: [{ role: 'system', content: text }], text, error: { code, message }, at: new Date().toISOString() }
}

export const cancelledOutcome = (): Outcome => {
  const text = 'This was cancelled before it was answered.'
  return { status: 'cancelled', messages: [{ role: 'system', content: text }], text, at: new Date().toISOString() }
}
