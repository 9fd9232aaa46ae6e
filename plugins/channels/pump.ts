import PQueue from 'p-queue'
import type { Log } from '../../core/log.js'

/** After a failure of the pump itself, such as the store's. */
const FAILURE_DELAY_MS = 5000
const MAX_DELAY_MS = 3_600_000

/**
 * Works off what waits under a key, one run a key at a time: run when kicked, and again after as many milliseconds as
 * the last run said. Idle keys cost nothing.
 */
export class Pump {
  readonly #queue: PQueue
  readonly #drain: (key: string) => Promise<number | undefined>
  readonly #log: Log
  /** Keys queued or running; `true`: kicked again meanwhile. */
  readonly #active = new Map<string, boolean>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #stopped = false

  /** `drain` works until there is nothing to do now; resolves with when to look again, or `undefined` for when it is kicked. */
  constructor(drain: (key: string) => Promise<number | undefined>, concurrency: number, log: Log) {
    this.#drain = drain
    this.#queue = new PQueue({ concurrency })
    this.#log = log
  }

  kick(key: string): void {
    if (this.#stopped) return
    this.#forgetTimer(key)
    if (this.#active.has(key)) {
      this.#active.set(key, true)
      return
    }
    this.#active.set(key, false)
    void this.#queue.add(() => this.#run(key))
  }

  /** Starts nothing more; resolves when what runs is done. */
  async stop(): Promise<void> {
    this.#stopped = true
    for (const key of [...this.#timers.keys()]) this.#forgetTimer(key)
    this.#queue.clear()
    await this.#queue.onIdle()
  }

  get isStopped(): boolean {
    return this.#stopped
  }

  async #run(key: string): Promise<void> {
    let delay: number | undefined
    try {
      this.#active.set(key, false)
      delay = await this.#drain(key)
    } catch (error) {
      this.#log.error({ err: error, channelId: key }, 'deliveries of a channel could not be worked off')
      delay = FAILURE_DELAY_MS
    }
    const again = this.#active.get(key)
    this.#active.delete(key)
    if (again) this.kick(key)
    else if (delay !== undefined && !this.#stopped) this.#wake(key, delay)
  }

  #wake(key: string, delayMs: number): void {
    const delay = Math.min(Math.max(delayMs, 0), MAX_DELAY_MS)
    this.#timers.set(
      key,
      setTimeout(() => this.kick(key), delay),
    )
  }

  #forgetTimer(key: string): void {
    clearTimeout(this.#timers.get(key))
    this.#timers.delete(key)
  }
}
