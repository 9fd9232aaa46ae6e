import { residentBytes } from './memory.js'
import type { Supervisor } from './supervisor.js'

interface UseWatchOptions {
  intervalMs: number
  supervisors: () => Supervisor[]
  /** What the plugin can write. */
  directoriesOf: (id: string) => string[]
  onFailure: (error: unknown) => void
}

/** Looks from time to time at what plugins use of memory and disk, and has those ended that use more than they may. */
export class UseWatch {
  readonly #options: UseWatchOptions
  readonly #timer: NodeJS.Timeout
  /** A look that takes longer than the interval is not doubled. */
  #isLooking = false

  constructor(options: UseWatchOptions) {
    this.#options = options
    this.#timer = setInterval(() => void this.#look(), options.intervalMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    try {
      await this.#lookAtMemory()
      for (const supervisor of this.#options.supervisors()) await supervisor.checkStorage(this.#options.directoriesOf(supervisor.id))
    } catch (error) {
      this.#options.onFailure(error)
    } finally {
      this.#isLooking = false
    }
  }

  async #lookAtMemory(): Promise<void> {
    const running = this.#options.supervisors().flatMap(({ current }) => (current ? [current.process.pid] : []))
    const resident = await residentBytes(running)
    for (const supervisor of this.#options.supervisors())
      supervisor.checkMemory(supervisor.current && resident?.get(supervisor.current.process.pid))
  }
}
