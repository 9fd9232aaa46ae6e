import type { Candidate } from './discovery.js'

/** Whether a version that takes over proves itself: until then the one before is kept, and what failed is not tried again. */
export class Probation {
  readonly #lengthMs: number
  readonly #onPassed: () => void
  #previous: Candidate | undefined
  #refused: string | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(lengthMs: number, onPassed: () => void) {
    this.#lengthMs = lengthMs
    this.#onPassed = onPassed
  }

  /** The version before the current one, for as long as the current one has yet to prove itself. */
  get previous(): Candidate | undefined {
    return this.#previous
  }

  /** Another version has taken over from `previous`. */
  begin(previous: Candidate): void {
    this.#previous = previous
    this.#refused = undefined
    clearTimeout(this.#timer)
    this.#timer = setTimeout(() => {
      this.#previous = undefined
      this.#onPassed()
    }, this.#lengthMs).unref()
  }

  /** These files cannot replace, or have failed to replace, what ran before. */
  refuse({ listing }: Candidate): void {
    this.#refused = listing.signature
  }

  isRefused({ listing }: Candidate): boolean {
    return listing.signature === this.#refused
  }

  /** Files that were refused may be tried again. */
  pardon(): void {
    this.#refused = undefined
  }

  /** The version before serves again, or nothing does. */
  end(): void {
    this.#previous = undefined
    clearTimeout(this.#timer)
  }
}
