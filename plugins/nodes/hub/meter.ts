const WINDOW_MS = 60_000
/** Until it is known who is there, a connection has nothing to say but that. */
export const MAX_UNADMITTED_BYTES = 4096

/** Bounds the bytes that one connection sends: before it is let in, in each minute, and in pieces of one message. */
export class Meter {
  readonly #perMinute: () => number
  readonly #maxMessageBytes: number
  #isAdmitted = false
  #windowStart = -Infinity
  #bytes = 0
  /** Bytes of pieces that wait for the rest of their message. */
  #pending = 0

  /** `perMinute` 0: no limit but that of a message. */
  constructor(perMinute: () => number, maxMessageBytes: number) {
    this.#perMinute = perMinute
    this.#maxMessageBytes = maxMessageBytes
  }

  admit(): void {
    this.#isAdmitted = true
    this.#bytes = 0
  }

  /** Counts a frame; a `piece` waits for the rest of its message. False: it was too much, and the connection has to end. */
  take(bytes: number, isPiece = false): boolean {
    if (!this.#isAdmitted) {
      this.#bytes += bytes
      return this.#bytes <= MAX_UNADMITTED_BYTES
    }
    this.#pending = isPiece ? this.#pending + bytes : 0
    const now = performance.now()
    if (now - this.#windowStart >= WINDOW_MS) {
      this.#windowStart = now
      this.#bytes = 0
    }
    this.#bytes += bytes
    const limit = this.#perMinute()
    return this.#pending <= this.#maxMessageBytes && (limit === 0 || this.#bytes <= limit)
  }
}
