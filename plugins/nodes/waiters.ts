import { rateLimited } from '../../core/errors.js'

/** Requests that may wait for results at once, in all and for one command. */
const MAX_WAITERS = 20_000
const MAX_FOR_ONE = 100

/** Who waits for the end of which command. */
export class Waiters<T> {
  readonly #waiting = new Map<string, Set<(ended: T | null) => void>>()
  #count = 0
  #isClosed = false

  /**
   * Starts to wait; look whether the command has ended after this, not before. `ended` resolves with what ended, or with
   * `null` when the time is over, the signal aborts or the gateway stops. Throws `rate_limited` when too many wait.
   */
  wait(id: string, timeoutMs: number | undefined, signal: AbortSignal): { ended: Promise<T | null>; stop: () => void } {
    const known = this.#waiting.get(id)
    if (this.#count >= MAX_WAITERS || (known && known.size >= MAX_FOR_ONE)) throw rateLimited(1, 'Too many requests wait for results')
    const waiting = known ?? new Set()
    this.#waiting.set(id, waiting)
    let stop = (): void => undefined
    const ended = new Promise<T | null>(resolve => {
      const settle = (value: T | null): void => {
        if (!waiting.delete(settle)) return
        this.#count -= 1
        if (waiting.size === 0) this.#waiting.delete(id)
        clearTimeout(timer)
        signal.removeEventListener('abort', stop)
        resolve(value)
      }
      stop = (): void => settle(null)
      waiting.add(settle)
      this.#count += 1
      const timer = timeoutMs === undefined ? undefined : setTimeout(stop, timeoutMs)
      signal.addEventListener('abort', stop)
      if (this.#isClosed || signal.aborted) settle(null)
    })
    return { ended, stop }
  }

  ended(id: string, value: T): void {
    for (const settle of [...(this.#waiting.get(id) ?? [])]) settle(value)
  }

  /** Answers everyone who waits, now and from now on. */
  close(): void {
    this.#isClosed = true
    for (const waiting of [...this.#waiting.values()]) for (const settle of [...waiting]) settle(null)
  }
}
