import type { HostLimits } from './policy.js'
import type { PluginProcess } from './process.js'

/** What to do when a process answers a ping, or has missed so many in a row. */
export interface LivenessReport {
  answered(): void
  missed(misses: number): void
}

/** Pings a process that has been silent for a while, until it is stopped. */
export class Liveness {
  readonly #process: PluginProcess
  readonly #limits: HostLimits
  readonly #report: LivenessReport
  readonly #timer: NodeJS.Timeout
  #misses = 0

  constructor(process: PluginProcess, limits: HostLimits, report: LivenessReport) {
    this.#process = process
    this.#limits = limits
    this.#report = report
    this.#timer = setInterval(() => void this.#ping(), limits.pingAfter).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#misses = Number.NaN
  }

  get #isStopped(): boolean {
    return Number.isNaN(this.#misses)
  }

  async #ping(): Promise<void> {
    const { pingAfter, pingTimeout } = this.#limits
    if (this.#process.silentFor < pingAfter) return
    const asked = performance.now()
    try {
      await this.#process.request('plugin.ping', {}, { timeoutMs: pingTimeout, hardTimeoutMs: pingTimeout, urgent: true })
      if (this.#isStopped) return
      this.#misses = 0
      this.#report.answered()
    } catch {
      // It has said other things since: slow, not hung.
      if (this.#isStopped || this.#process.silentFor < performance.now() - asked) return
      this.#misses += 1
      this.#report.missed(this.#misses)
    }
  }
}
