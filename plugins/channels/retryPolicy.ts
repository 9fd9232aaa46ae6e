import type { Failure } from './failure.js'

const SECOND = 1000

/** Doubles from `baseMs` to `maxMs` and lasts for `attempts` in all. */
export interface RetryPolicy {
  baseMs: number
  maxMs: number
  attempts: number
}

/** About ten minutes in all: what comes after it waits behind it, for the order's sake. */
export const INBOX_RETRY: RetryPolicy = { baseMs: SECOND, maxMs: 120 * SECOND, attempts: 12 }
/** About five hours in all: a platform's outage. */
export const OUTBOX_RETRY: RetryPolicy = { baseMs: SECOND, maxMs: 3600 * SECOND, attempts: 16 }
export const CONNECT_RETRY: RetryPolicy = { baseMs: SECOND, maxMs: 300 * SECOND, attempts: Infinity }
/** Fewer than the crashes that make the host give a plugin up: one bad delivery must not stop it. */
export const MAX_CRASHES = 3
const BUSY_MS = SECOND
/** Longer than this no adapter can hold a delivery back. */
const MAX_RETRY_AFTER_MS = 6 * 3600 * SECOND

/** Half to the whole of the doubled delay, so that many do not come back together. `failures` counts from 1. */
export const backOff = (failures: number, { baseMs, maxMs }: RetryPolicy, random: () => number = Math.random): number =>
  Math.min(maxMs, baseMs * 2 ** Math.min(failures - 1, 30)) * (0.5 + random() / 2)

export type Verdict = { retry: true; delayMs: number; attempts: number; crashes: number } | { retry: false; reason: string }

/** What becomes of a delivery after a failure. */
export const afterFailure = (
  { attempts, crashes }: { attempts: number; crashes: number },
  { kind, message, retryAfterMs = 0 }: Failure,
  policy: RetryPolicy,
  random?: () => number,
): Verdict => {
  const held = Math.min(retryAfterMs, MAX_RETRY_AFTER_MS)
  if (kind === 'refused' || kind === 'unsupported') return { retry: false, reason: message }
  if (kind === 'busy') return { retry: true, delayMs: Math.max(BUSY_MS, held), attempts, crashes }
  if (kind === 'crashed') {
    if (crashes + 1 >= MAX_CRASHES)
      return { retry: false, reason: `the plugin died ${MAX_CRASHES} times while it handled this: ${message}` }
    return { retry: true, delayMs: policy.baseMs, attempts, crashes: crashes + 1 }
  }
  if (attempts + 1 >= policy.attempts) return { retry: false, reason: `given up after ${policy.attempts} attempts: ${message}` }
  return { retry: true, delayMs: Math.max(backOff(attempts + 1, policy, random), held), attempts: attempts + 1, crashes }
}
