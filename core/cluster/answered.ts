/** Requests of one gateway, counted back from its last, of which is known what became of them. */
const WINDOW = 65_536
/** Answers kept for who asks again, and their characters. */
const MAX_ANSWERS = 2_000
const MAX_ANSWERS_LENGTH = 8 * 1024 * 1024

/**
 * What became of the requests of one gateway. Each is numbered by it, in ascending order, and has two bits while it is
 * among the last: tables of what changes this often would live on in old memory, one after the other.
 */
export class Asked {
  readonly #taken = new Bits()
  readonly #answered = new Bits()
  #highest = 0
  /** Worked on for so long that their bits count for others by now. Few at a time, and none for most of the time. */
  readonly #slow = new Set<number>()

  /** `new`: to be worked on. `working`: its answer comes. `answered`: or so long ago that it cannot be told. */
  state(number: number): 'new' | 'working' | 'answered' {
    if (this.#isForgotten(number)) return this.#slow.has(number) ? 'working' : 'answered'
    if (number > this.#highest || !this.#taken.has(number)) return 'new'
    return this.#answered.has(number) ? 'answered' : 'working'
  }

  /** One that is `new`. */
  take(number: number): void {
    const last = Math.min(this.#highest, number - WINDOW)
    for (let gone = Math.max(1, this.#highest - WINDOW + 1); gone <= last; gone++) this.#forget(gone)
    this.#highest = Math.max(this.#highest, number)
    this.#taken.set(number, true)
  }

  /** One that is taken. */
  answer(number: number): void {
    if (this.#isForgotten(number)) this.#slow.delete(number)
    else this.#answered.set(number, true)
  }

  #isForgotten(number: number): boolean {
    return number <= this.#highest - WINDOW
  }

  #forget(number: number): void {
    if (this.state(number) === 'working') this.#slow.add(number)
    this.#taken.set(number, false)
    this.#answered.set(number, false)
  }
}

/** One for each of the last numbers. */
class Bits {
  readonly #words = new Uint32Array(WINDOW / 32)

  has(number: number): boolean {
    return ((this.#words[(number % WINDOW) >> 5] ?? 0) & (1 << (number & 31))) !== 0
  }

  set(number: number, isSet: boolean): void {
    const [index, bit] = [(number % WINDOW) >> 5, 1 << (number & 31)]
    const word = this.#words[index] ?? 0
    this.#words[index] = isSet ? word | bit : word & ~bit
  }
}

/** The last answers, for who asks again because none arrived. */
export class KeptAnswers {
  readonly #kept: ({ from: string; id: string; text: string } | undefined)[] = []
  #oldest = 0
  #next = 0
  #length = 0

  keep(from: string, id: string, text: string): void {
    this.#kept[this.#next++ % MAX_ANSWERS] = { from, id, text }
    this.#length += text.length
    // Before the next one comes to the place of the oldest.
    while (this.#next - this.#oldest >= MAX_ANSWERS || this.#length > MAX_ANSWERS_LENGTH) {
      const slot = this.#oldest++ % MAX_ANSWERS
      this.#length -= this.#kept[slot]?.text.length ?? 0
      this.#kept[slot] = undefined
    }
  }

  find(from: string, id: string): string | undefined {
    return this.#kept.find(kept => kept?.id === id && kept.from === from)?.text
  }
}
