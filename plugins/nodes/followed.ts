import type { Cluster } from '../../core/cluster/cluster.js'
import { commandOver } from './between.js'

interface Parts {
  cluster: Cluster
  /** Looks which of these commands are over, and lets those who wait for them know. */
  look: (ids: string[]) => Promise<void>
}

/** Commands that someone waits for here and that may end at another gateway. */
export class Followed {
  readonly #parts: Parts
  readonly #ids = new Map<string, number>()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  get ids(): string[] {
    return [...this.#ids.keys()]
  }

  /**
   * Listens for the end of a command; look whether it has ended once `listening` resolves. A command that was sent to its
   * node here ends here as a rule, or is told to this gateway.
   */
  follow(id: string, isHere: boolean): { listening: Promise<unknown>; stop: () => void } {
    this.#ids.set(id, (this.#ids.get(id) ?? 0) + 1)
    const over = (): void => void this.#parts.look([id])
    const listening = isHere ? undefined : this.#parts.cluster.follow(commandOver, id, over)
    return {
      listening: listening ?? Promise.resolve(),
      stop: () => {
        void listening?.then(unfollow => unfollow())
        const count = this.#ids.get(id) ?? 0
        if (count > 1) this.#ids.set(id, count - 1)
        else this.#ids.delete(id)
      },
    }
  }
}
