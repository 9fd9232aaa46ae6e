import { Thread } from '../../core/thread.js'
import type { Results, Task } from './vectorSpaces.js'

/** Without work the thread ends, and what it holds is read again from the store when it is needed. */
const IDLE_MS = 60_000
const MAX_HEAP_MB = 256

/** The thread that holds vectors and compares them, so that a search never holds up the gateway. It starts at the first task. */
export class VectorThread {
  readonly #thread = new Thread<Task>({
    worker: 'vectorSearch',
    name: 'the thread that compares vectors',
    idleMs: IDLE_MS,
    maxHeapMb: MAX_HEAP_MB,
  })

  /** Rejects with what is wrong with the vectors, or when the thread died under it. */
  run<K extends Task['kind']>(task: Task & { kind: K }): Promise<Results[K]> {
    return this.#thread.run(task) as Promise<Results[K]>
  }

  /** Ends the thread; a further task starts another one. */
  close(): Promise<void> {
    return this.#thread.close()
  }
}
