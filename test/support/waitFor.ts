/** Less than the 30 s after which the gateway itself gives up most of what it waits for, so that a wait does not hide that. */
const WAIT_MS = 25_000

/**
 * Polls until `condition` gives something truthy, and returns it; fails after `timeoutMs` with `what`. It polls the less
 * often the longer it waits, so that waiting for a minute stays below the limits on requests.
 */
export const waitFor = async <T>(what: string, condition: () => T | Promise<T>, timeoutMs = WAIT_MS): Promise<NonNullable<T>> => {
  const since = Date.now()
  for (;;) {
    const value = await condition()
    if (value) return value
    const waitedMs = Date.now() - since
    if (waitedMs > timeoutMs) throw new Error(`waited ${String(timeoutMs)} ms in vain: ${what}`)
    await new Promise(resolve => setTimeout(resolve, Math.max(20, waitedMs / 50)))
  }
}
