import { afterCrash, recentCrashes, type AfterCrash, type HostLimits } from './policy.js'

/** One plugin's crashes, and the start that follows the last of them: with a back-off, until they are too many. */
export class Recovery {
  readonly #limits: HostLimits
  #crashes: number[] = []
  #readySince = 0
  #retry: NodeJS.Timeout | undefined

  constructor(limits: HostLimits) {
    this.#limits = limits
  }

  /** A person or other files start it: what crashed before does not count any more. */
  beginAnew(): void {
    this.cancelRetry()
    this.#crashes = []
  }

  /** A process of it serves from now on. */
  serves(): void {
    this.#readySince = Date.now()
  }

  /** A process of it has crashed, or did not get ready. Says what follows. */
  crashed(): AfterCrash {
    const now = Date.now()
    const healthyFor = this.#readySince === 0 ? 0 : now - this.#readySince
    this.#readySince = 0
    this.#crashes = recentCrashes([...this.#crashes, now], now, this.#limits)
    return afterCrash(this.#crashes, healthyFor, this.#limits)
  }

  retryIn(delay: number, start: () => void): void {
    this.#retry = setTimeout(start, delay)
  }

  cancelRetry(): void {
    clearTimeout(this.#retry)
  }
}
