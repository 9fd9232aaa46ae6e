/** Work that waits for its turn. */
interface Waiting {
  lane: string | undefined
  begin: () => void
}

/** Lets so many run side by side, and those of one lane one after the other, in the order in which they came. */
export class Lanes {
  readonly #maxRunning: number
  readonly #maxWaiting: number
  readonly #occupied = new Set<string>()
  #waiting: Waiting[] = []
  #running = 0

  constructor(limits: { maxRunning: number; maxWaiting: number }) {
    this.#maxRunning = limits.maxRunning
    this.#maxWaiting = limits.maxWaiting
  }

  get hasRoom(): boolean {
    return this.#running < this.#maxRunning || this.#waiting.length < this.#maxWaiting
  }

  /** Runs the work when its turn comes; when the signal aborts before that, it is left out. */
  enter(lane: string | undefined, signal: AbortSignal, work: () => Promise<void>): void {
    const leave = (): void => {
      this.#waiting = this.#waiting.filter(one => one !== waiting)
    }
    const waiting: Waiting = {
      lane,
      begin: () => {
        signal.removeEventListener('abort', leave)
        void work().finally(() => {
          this.#running -= 1
          if (lane !== undefined) this.#occupied.delete(lane)
          this.#next()
        })
      },
    }
    signal.addEventListener('abort', leave, { once: true })
    this.#waiting.push(waiting)
    this.#next()
  }

  #next(): void {
    for (const waiting of [...this.#waiting]) {
      if (this.#running >= this.#maxRunning) return
      const { lane } = waiting
      if (lane !== undefined && this.#occupied.has(lane)) continue
      this.#waiting = this.#waiting.filter(one => one !== waiting)
      this.#running += 1
      if (lane !== undefined) this.#occupied.add(lane)
      waiting.begin()
    }
  }
}
