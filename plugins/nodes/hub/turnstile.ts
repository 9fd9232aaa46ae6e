/** Connections that are let in during one turn of the event loop: some milliseconds of work. */
const PER_TURN = 16
/** Connections that may wait for their turn; beyond it they are sent away, and come back later. */
const MAX_WAITING = 20_000

/**
 * Lets connections in a few at a time. When all nodes come back at once, whatever else the gateway has to do finds its
 * turn between them.
 */
export class Turnstile {
  #waiting: (() => void)[] = []
  #isTurning = false

  /** Runs `enter` soon. False, and never: too many wait. */
  queue(enter: () => void): boolean {
    if (this.#waiting.length >= MAX_WAITING) return false
    this.#waiting.push(enter)
    if (!this.#isTurning) this.#turn()
    return true
  }

  #turn(): void {
    this.#isTurning = true
    setImmediate(() => {
      this.#isTurning = false
      for (const enter of this.#waiting.splice(0, PER_TURN)) enter()
      if (this.#waiting.length > 0) this.#turn()
    })
  }
}
