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
    const processes = this.#options.supervisors().flatMap(({ current, spare }) => [current?.process, spare.process])
    const trees = await processTrees(processes.flatMap(process => (process ? [process.pid] : [])))
    const { dev } = await stat(this.#options.dataDir)
    const used = async (pid: number | undefined): Promise<{ memory: number | undefined; held: number }> => {
      const tree = pid === undefined ? undefined : trees?.get(pid)
      if (!tree) return { memory: undefined, held: 0 }
      const held = await heldFiles(tree.pids, dev)
      return { memory: tree.resident + held.memory, held: held.stored }
    }
    for (const supervisor of this.#options.supervisors()) {
      const { current, spare } = supervisor
      const own = await used(current?.process.pid)
      const other = await used(spare.process?.pid)
      // Both store in the same place: what one of them holds there counts for the plugin.
      supervisor.checkMemory(own.memory, own.held + other.held)
      spare.checkMemory(other.memory)
    }
  }
}
