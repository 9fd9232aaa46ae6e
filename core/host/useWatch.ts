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
    const processes = this.#options.supervisors().flatMap(({ current, spare }) => [current?.process, spare.process])
    const resident = await residentBytes(processes.flatMap(process => (process ? [process.pid] : [])))
    for (const supervisor of this.#options.supervisors()) {
      const { current, spare } = supervisor
      supervisor.checkMemory(current && resident?.get(current.process.pid))
      spare.checkMemory(spare.process && resident?.get(spare.process.pid))
    }
  }
}
