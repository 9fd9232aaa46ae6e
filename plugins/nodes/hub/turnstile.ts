import { Lines } from './lines.js'

/** Connections that are let in during one turn of the event loop: some milliseconds of work. */
const PER_TURN = 16
/** Connections that may wait for their turn, of all networks together. */
export const MAX_WAITING = 20_000

export interface Arrival {
  enter: () => void
  /** There is no place for it: it is sent away, and comes back later. */
  refuse: () => void
}

/**
 * Lets connections in a few at a time. When all nodes come back at once, whatever else the gateway has to do finds its
 * turn between them. Networks take turns, and have equal claims to the places: the thousands of one address fill them all
 * only while nobody else comes.
 */
export class Turnstile {
  readonly #lines = new Lines<Arrival>(MAX_WAITING)
  #isTurning = false

  /** Calls one of both, once. */
  queue(network: string, arrival: Arrival): void {
    this.#lines.push(network, arrival)?.refuse()
    if (!this.#isTurning) this.#turn()
  }

  #turn(): void {
    this.#isTurning = true
    setImmediate(() => {
      this.#isTurning = false
      for (let i = 0; i < PER_TURN; i++) this.#lines.shift()?.enter()
      if (this.#lines.size > 0) this.#turn()
    })
  }
}
