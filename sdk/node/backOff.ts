import { setTimeout as sleep } from 'node:timers/promises'

/** How a node waits between its attempts. */
export interface BackOff {
  /** The longest first wait. */
  baseMs: number
  /** The longest wait of all. */
  maxMs: number
}

/**
 * The wait after so many failures in a row: anything up to `baseMs` · 2ⁿ, at most `maxMs`, so that the nodes of a gateway
 * that was restarted do not come back all at once. (Full jitter, after "Exponential Backoff And Jitter", AWS, 2015.)
 */
export const backOffMs = (failures: number, { baseMs, maxMs }: BackOff, random: () => number = Math.random): number =>
  random() * Math.min(maxMs, baseMs * 2 ** Math.min(failures, 30))

/** Waits; resolves early, without an error, when the signal aborts. */
export const pause = async (ms: number, signal: AbortSignal): Promise<void> => {
  await sleep(ms, undefined, { signal }).catch(() => undefined)
}
