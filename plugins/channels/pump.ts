import { setMaxListeners } from 'node:events'
import PQueue from 'p-queue'
import type { Log } from '../../core/log.js'

/** After a failure of the pump itself, such as the store's. */
const FAILURE_DELAY_MS = 5000
const MAX_DELAY_MS = 3_600_000
/** How long calls under way may go on when the pump stops; then they are given up and made again after the next start. */
const STOP_GRACE_MS = 3000

/** What a run has to heed. */
export interface Run {
  /** Nothing more is to be begun. */
  readonly isStopped: boolean
  /** Aborts what is under way when the pump cannot wait for it any longer. */
  readonly signal: AbortSignal
  /** Resolves at the next kick from now on: there may be more to do. */
  kicked(): Promise<void>
}

/**
 * Works off what waits under a key, one run a key at a time: run when kicked, and again after as many milliseconds as
 * the last run said. Idle keys cost nothing.
 */
export class Pump {
  readonly #lanes = new Map<string, PQueue>()
  readonly #laneOf: (key: string) => string
  readonly #concurrency: number
  readonly #drain: (key: string, run: Run) => Promise<number | undefined>
  readonly #log: Log
  /** Keys queued or running; `true`: kicked again meanwhile. */
  readonly #active = new Map<string, boolean>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  /** Told of the next kick, by running key. */
  readonly #onKick = new Map<string, () => void>()
  readonly #giveUp = new AbortController()
  #isStopped = false

  /**
   * `drain` works until there is nothing to do now; resolves with when to look again, or `undefined` for when it is
   * kicked. Keys of one lane share `concurrency` and never wait for those of another.
   */
  constructor(parts: {
    drain: (key: string, run: Run) => Promise<number | undefined>
    laneOf: (key: string) => string
    concurrency: number
    log: Log
  }) {
    // One for each call under way, which the lanes bound.
    setMaxListeners(0, this.#giveUp.signal)
    this.#drain = parts.drain
    this.#laneOf = parts.laneOf
    this.#concurrency = parts.concurrency
    this.#log = parts.log
  }

  kick(key: string): void {
    if (this.#isStopped) return
    this.#forgetTimer(key)
    if (this.#active.has(key)) {
      this.#active.set(key, true)
      this.#onKick.get(key)?.()
      return
    }
    this.#active.set(key, false)
    void this.#lane(this.#laneOf(key)).add(() => this.#work(key))
  }

  /** Starts nothing more; resolves when what runs is done, or given up. */
  async stop(): Promise<void> {
    this.#isStopped = true
    for (const key of [...this.#timers.keys()]) this.#forgetTimer(key)
    const lanes = [...this.#lanes.values()]
    for (const lane of lanes) lane.clear()
    const patience = setTimeout(() => {
      this.#giveUp.abort(new Error('The gateway stops'))
    }, STOP_GRACE_MS)
    await Promise.all(lanes.map(lane => lane.onIdle()))
    clearTimeout(patience)
  }

  #lane(name: string): PQueue {
    const lane = this.#lanes.get(name) ?? new PQueue({ concurrency: this.#concurrency })
    this.#lanes.set(name, lane)
    return lane
  }

  async #work(key: string): Promise<void> {
    let delay: number | undefined
    try {
      this.#active.set(key, false)
      delay = await this.#drain(key, this.#runOf(key))
    } catch (error) {
      this.#log.error({ err: error, channelId: key }, 'deliveries of a channel could not be worked off')
      delay = FAILURE_DELAY_MS
    }
    this.#onKick.delete(key)
    const again = this.#active.get(key)
    this.#active.delete(key)
    if (again) this.kick(key)
    else if (delay !== undefined && !this.#isStopped) this.#wake(key, delay)
  }

  #runOf(key: string): Run {
    const isStopped = (): boolean => this.#isStopped
    return {
      get isStopped() {
        return isStopped()
      },
      signal: this.#giveUp.signal,
      kicked: () => new Promise(resolve => this.#onKick.set(key, resolve)),
    }
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
