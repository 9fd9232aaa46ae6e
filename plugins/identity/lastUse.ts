import type { Log } from '../../core/log.js'

const MAX_INTERVAL_MS = 60_000
/** Writes under way; more are left out, and the next request of that session or token tries again. */
const MAX_WRITES = 64

/** How old the stored time of the last use may get: a minute, or a tenth of a shorter idle timeout. */
export const useInterval = (idleTimeoutMs: number): number => Math.min(MAX_INTERVAL_MS, idleTimeoutMs / 10)

/** Notes the last use of sessions and tokens without making their requests wait. */
export class LastUse {
  readonly #log: Log
  readonly #writes = new Map<string, Promise<void>>()

  constructor(log: Log) {
    this.#log = log
  }

  note(id: string, write: () => Promise<unknown>): void {
    if (this.#writes.has(id) || this.#writes.size >= MAX_WRITES) return
    const writing = write()
      .catch((error: unknown) => {
        this.#log.warn({ err: error }, 'the last use of a session or token could not be noted')
      })
      .then(() => void this.#writes.delete(id))
    this.#writes.set(id, writing)
  }

  /** Resolves when nothing is being written. */
  async settled(): Promise<void> {
    await Promise.all(this.#writes.values())
  }
}
