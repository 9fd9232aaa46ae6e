import type { Running } from './running.js'

/** How often an idle moment is looked for, in milliseconds. */
const LOOK_MS = 25

/** Replaced processes whose calls are finishing. */
export class Draining {
  readonly #limitMs: number
  readonly #onGone: () => void
  readonly #draining = new Map<Running, Promise<unknown>>()

  constructor(limitMs: number, onGone: () => void) {
    this.#limitMs = limitMs
    this.#onGone = onGone
  }

  get running(): Running[] {
    return [...this.#draining.keys()]
  }

  /** Lets its calls finish, for a while, then stops it. */
  add(old: Running, reason: string): void {
    const drained = this.#drain(old, reason).finally(() => {
      this.#draining.delete(old)
      this.#onGone()
    })
    this.#draining.set(old, drained)
  }

  /** Resolves once what drains now is gone. */
  async settled(): Promise<void> {
    await Promise.allSettled(this.#draining.values())
  }

  async #drain({ process }: Running, reason: string): Promise<void> {
    const deadline = Date.now() + this.#limitMs
    while (process.stats.pending + process.stats.waiting > 0 && !process.ended && Date.now() < deadline)
      await new Promise(resolve => setTimeout(resolve, LOOK_MS))
    await process.stop(reason)
  }
}
