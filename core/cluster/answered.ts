/** Requests of one gateway, counted back from its last, of which is known what became of them. */
const WINDOW = 65_536
/** Answers kept for who asks again, and their characters. */
const MAX_KEPT = 2_000
const MAX_KEPT_LENGTH = 8 * 1024 * 1024

/**
 * A set of ascending numbers that forgets what is far below the highest: one bit each. Tables of what changes this often
 * would live on in old memory, one after the other.
 */
class Numbers {
  readonly #bits = new Uint32Array(WINDOW / 32)
  #highest = 0

  add(number: number): void {
    if (number - this.#highest >= WINDOW) this.#bits.fill(0)
    else for (let skipped = this.#highest + 1; skipped < number; skipped++) this.#set(skipped, false)
    this.#highest = Math.max(this.#highest, number)
    this.#set(number, true)
  }

  has(number: number): boolean {
    if (number > this.#highest) return false
    return this.isForgotten(number) || ((this.#bits[(number % WINDOW) >> 5] ?? 0) & (1 << (number & 31))) !== 0
  }

  isForgotten(number: number): boolean {
    return number <= this.#highest - WINDOW
  }

  #set(number: number, isIn: boolean): void {
    const [index, bit] = [(number % WINDOW) >> 5, 1 << (number & 31)]
    const word = this.#bits[index] ?? 0
    this.#bits[index] = isIn ? word | bit : word & ~bit
  }
}

/** What became of the requests of one gateway. Each is numbered by it, in ascending order. */
export class Asked {
  readonly #taken = new Numbers()
  readonly #answered = new Numbers()

  /** `new`: to be worked on. `working`: its answer comes. `answered`: or so long ago that it cannot be told. */
  state(number: number): 'new' | 'working' | 'answered' {
    if (!this.#taken.has(number)) return 'new'
    return this.#taken.isForgotten(number) || this.#answered.has(number) ? 'answered' : 'working'
  }

  take(number: number): void {
    this.#taken.add(number)
  }

  answer(number: number): void {
    if (!this.#taken.isForgotten(number)) this.#answered.add(number)
  }
}

/** The last answers, for who asks again because none arrived. */
export class KeptAnswers {
  readonly #kept: ({ from: string; id: string; text: string } | undefined)[] = []
  #oldest = 0
  #next = 0
  #length = 0

  keep(from: string, id: string, text: string): void {
    this.#kept[this.#next++ % MAX_KEPT] = { from, id, text }
    this.#length += text.length
    while (this.#next - this.#oldest >= MAX_KEPT || this.#length > MAX_KEPT_LENGTH) {
      const slot = this.#oldest++ % MAX_KEPT
      this.#length -= this.#kept[slot]?.text.length ?? 0
      this.#kept[slot] = undefined
    }
  }

  find(from: string, id: string): string | undefined {
    return this.#kept.find(kept => kept?.id === id && kept.from === from)?.text
  }
}
