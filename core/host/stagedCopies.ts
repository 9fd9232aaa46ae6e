import { join } from 'node:path'
import type { Candidate } from './discovery.js'
import { pruneStaged, stageDirectory } from './stage.js'

/** The copies that one plugin's processes run from, one directory for each version. */
export class StagedCopies {
  readonly #directory: string
  readonly #onFailure: (error: unknown) => void
  /** A process is starting: the copy that it starts from is not known as in use yet. */
  #isStarting = false
  #pruning: Promise<unknown> = Promise.resolve()

  constructor(directory: string, onFailure: (error: unknown) => void) {
    this.#directory = directory
    this.#onFailure = onFailure
  }

  /** The directory of a version's copy, which stays until `started` and a `prune` without it. */
  async stage({ directory, listing }: Candidate): Promise<string> {
    this.#isStarting = true
    await this.#pruning
    return stageDirectory(directory, listing, this.#directory)
  }

  /** What was staged last runs, or never will. */
  started(): void {
    this.#isStarting = false
  }

  /** Removes every copy but those of these versions. */
  prune(inUse: readonly Candidate[]): void {
    if (this.#isStarting) return
    const kept = new Set(inUse.map(({ listing }) => join(this.#directory, listing.signature)))
    this.#pruning = Promise.all([this.#pruning, pruneStaged(this.#directory, kept).catch(this.#onFailure)])
  }
}
