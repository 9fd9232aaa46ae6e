import type { CommandOutcome } from './contract.js'

/** Ends a call of which nothing is on disk. */
export type Settle = (outcome: CommandOutcome) => void

/**
 * The few commands that one connection has under way. Not a `Map`: that moves to a new table after every few of them, an
 * old table refers to the one after it, and once one of them is in old memory all later ones, with all that stood in them,
 * live until the next full collection of garbage.
 */
export class InFlight {
  readonly #ids: string[] = []
  readonly #settles: (Settle | undefined)[] = []

  get size(): number {
    return this.#ids.length
  }

  get ids(): readonly string[] {
    return this.#ids
  }

  has(id: string): boolean {
    return this.#ids.includes(id)
  }

  /** `settle`: of a call that nobody needs to find again. */
  add(id: string, settle?: Settle): void {
    if (this.has(id)) return
    this.#ids.push(id)
    this.#settles.push(settle)
  }

  /** What ends the call with this id, when it is one. */
  settleOf(id: string): Settle | undefined {
    return this.#settles[this.#ids.indexOf(id)]
  }

  /** Whether it was there. */
  delete(id: string): boolean {
    const index = this.#ids.indexOf(id)
    if (index < 0) return false
    const [lastId, lastSettle] = [this.#ids.pop(), this.#settles.pop()]
    if (lastId !== undefined && index < this.#ids.length) {
      this.#ids[index] = lastId
      this.#settles[index] = lastSettle
    }
    return true
  }
}
