import type { Log } from '../../core/log.js'
import type { Directory } from './directory.js'

/** Comings and goings are written together: a storm of reconnections is a few writes. */
const INTERVAL_MS = 5_000

/** Keeps on disk when nodes that come and go were last seen. */
export class Seen {
  readonly #directory: Directory
  readonly #log: Log
  readonly #ids = new Set<string>()
  readonly #timer: NodeJS.Timeout
  #writing = Promise.resolve()

  constructor(directory: Directory, log: Log) {
    this.#directory = directory
    this.#log = log
    this.#timer = setInterval(() => {
      this.#write()
    }, INTERVAL_MS).unref()
  }

  note(nodeId: string): void {
    this.#ids.add(nodeId)
  }

  noteAll(nodeIds: readonly string[]): void {
    for (const nodeId of nodeIds) this.note(nodeId)
  }

  /** Writes what is left. */
  async stop(): Promise<void> {
    clearInterval(this.#timer)
    this.#write()
    await this.#writing
  }

  #write(): void {
    if (this.#ids.size === 0) return
    const ids = [...this.#ids]
    this.#ids.clear()
    this.#writing = this.#writing
      .then(() => this.#directory.seen(ids))
      .catch((error: unknown) => {
        this.#log.warn({ err: error }, 'when nodes were last seen could not be stored')
      })
  }
}
