const NEWLINE = 10
/** A kept buffer larger than this is given back after its line: an idle peer holds little memory. */
const KEEP_BYTES = 256 * 1024
const empty = Buffer.alloc(0)

/**
 * Cuts a byte stream into lines. Bytes of an unfinished line are kept in one buffer that doubles, so that neither a
 * huge line nor one that arrives byte by byte costs more than linear time and memory. Cutting happens at newline
 * bytes, before decoding: a character split over two chunks stays whole.
 */
export class LineReader {
  readonly #maxBytes: number
  readonly #onLine: (line: string) => void
  readonly #onTooLarge: () => void
  #kept = empty
  #length = 0

  /** `onTooLarge` is called once a line, finished or not, is longer than `maxBytes`; the reader must not be used after it. */
  constructor(maxBytes: number, onLine: (line: string) => void, onTooLarge: () => void) {
    this.#maxBytes = maxBytes
    this.#onLine = onLine
    this.#onTooLarge = onTooLarge
  }

  push(chunk: Buffer): void {
    const last = chunk.lastIndexOf(NEWLINE)
    if (last < 0) {
      this.#keep(chunk)
      return
    }
    let start = 0
    if (this.#length > 0) {
      start = chunk.indexOf(NEWLINE) + 1
      if (!this.#keep(chunk.subarray(0, start - 1))) return
      this.#onLine(this.#take())
    }
    if (start <= last && !this.#emit(chunk.toString('utf8', start, last))) return
    if (last + 1 < chunk.length) this.#keep(chunk.subarray(last + 1))
  }

  /** One decoding for all lines of a chunk: much cheaper than one a line. */
  #emit(text: string): boolean {
    let from = 0
    for (;;) {
      const end = text.indexOf('\n', from)
      const line = end < 0 ? (from === 0 ? text : text.slice(from)) : text.slice(from, end)
      if (line.length * 3 > this.#maxBytes && Buffer.byteLength(line) > this.#maxBytes) {
        this.#onTooLarge()
        return false
      }
      this.#onLine(line)
      if (end < 0) return true
      from = end + 1
    }
  }

  #keep(bytes: Buffer): boolean {
    const length = this.#length + bytes.length
    if (length > this.#maxBytes) {
      this.#kept = empty
      this.#length = 0
      this.#onTooLarge()
      return false
    }
    if (length > this.#kept.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(length, this.#kept.length * 2, 8192))
      this.#kept.copy(larger, 0, 0, this.#length)
      this.#kept = larger
    }
    bytes.copy(this.#kept, this.#length)
    this.#length = length
    return true
  }

  #take(): string {
    const line = this.#kept.toString('utf8', 0, this.#length)
    this.#length = 0
    if (this.#kept.length > KEEP_BYTES) this.#kept = empty
    return line
  }
}
