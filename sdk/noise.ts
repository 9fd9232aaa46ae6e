const MAX_LINE = 1024
const MAX_LINES_PER_WINDOW = 20
const WINDOW_MS = 1000

/** Passes on lines that are no messages: cut to 1,024 characters, at most 20 a second; the rest is counted and said. */
export class Noise {
  readonly #onNoise: ((line: string) => void) | undefined
  readonly #shorten: (line: string) => string
  /** All noise so far, passed on or not. */
  count = 0
  #windowStart = 0
  #inWindow = 0
  #unsaid = 0

  constructor(onNoise: ((line: string) => void) | undefined, shorten = (line: string): string => line.slice(0, MAX_LINE)) {
    this.#onNoise = onNoise
    this.#shorten = shorten
  }

  report(line: string): void {
    this.count++
    const now = performance.now()
    if (now - this.#windowStart >= WINDOW_MS) {
      this.flush()
      this.#windowStart = now
      this.#inWindow = 0
    }
    if (this.#inWindow >= MAX_LINES_PER_WINDOW) {
      this.#unsaid++
      return
    }
    this.#inWindow++
    this.#onNoise?.(line.length > MAX_LINE ? `${this.#shorten(line)}... (${String(line.length)} characters)` : line)
  }

  /** Says how many lines were left out since the last one passed on. */
  flush(): void {
    if (this.#unsaid === 0) return
    this.#onNoise?.(`(${String(this.#unsaid)} more lines that are no messages were left out)`)
    this.#unsaid = 0
  }
}
