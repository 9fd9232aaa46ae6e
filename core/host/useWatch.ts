import { stat } from 'node:fs/promises'
import { heldFiles } from './heldFiles.js'
import { processTrees } from './processTree.js'
import type { Supervisor } from './supervisor.js'

interface UseWatchOptions {
  memoryIntervalMs: number
  storageIntervalMs: number
  supervisors: () => Supervisor[]
  /** What the plugin can write. */
  directoriesOf: (id: string) => string[]
  /** On the device that plugins store on. */
  dataDir: string
  onFailure: (error: unknown) => void
}

/** Looks from time to time at what plugins use of memory and disk, and has those ended that use more than they may. */
export class UseWatch {
  readonly #options: UseWatchOptions
  readonly #timers: NodeJS.Timeout[]
  /** A look that takes longer than its interval is not doubled, and holds up no other. */
  readonly #looks = new Set<string>()

  constructor(options: UseWatchOptions) {
    this.#options = options
    this.#timers = [
      setInterval(() => {
        this.#look('memory', () => this.#lookAtMemory())
      }, options.memoryIntervalMs).unref(),
      setInterval(() => {
        for (const supervisor of this.#options.supervisors())
          if (supervisor.current)
            this.#look(`storage of ${supervisor.id}`, () => supervisor.checkStorage(options.directoriesOf(supervisor.id)))
      }, options.storageIntervalMs).unref(),
    ]
  }

  stop(): void {
    this.#timers.forEach(clearInterval)
  }

  #look(what: string, look: () => Promise<void>): void {
    if (this.#looks.has(what)) return
    this.#looks.add(what)
    look()
      .catch(this.#options.onFailure)
      .finally(() => {
        this.#looks.delete(what)
      })
  }

  /** And at what is held open of deleted files, which takes the same list of processes. */
  async #lookAtMemory(): Promise<void> {
    const leaders = this.#options.supervisors().flatMap(({ current }) => (current ? [current.process.pid] : []))
    const trees = await processTrees(leaders)
    const { dev } = await stat(this.#options.dataDir)
    for (const supervisor of this.#options.supervisors()) {
      const tree = supervisor.current && trees?.get(supervisor.current.process.pid)
      const held = tree && (await heldFiles(tree.pids, dev))
      supervisor.checkMemory(tree && tree.resident + (held?.memory ?? 0), held?.stored ?? 0)
    }
  }
}
