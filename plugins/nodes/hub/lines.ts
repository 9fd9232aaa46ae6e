import { Deque } from './deque.js'

interface Line<T> {
  name: string
  waiting: Deque<T>
  /** Where it stands among those of its size. */
  index: number
}

/**
 * Those who wait, in lines that take turns, so that nobody waits for the many of another line. There are so many places in
 * all. Once they are taken, who comes to a shorter line takes the place of the last one in the longest; a line may have all
 * of them while nobody else wants one, and its fair share at least when others do. Each step takes the same time however
 * many wait.
 */
export class Lines<T> {
  readonly #places: number
  readonly #lines = new Map<string, Line<T>>()
  /** In the order of their turns, each once. */
  readonly #turns = new Deque<Line<T>>()
  /** Lines by how many wait in them. They change by one at a time, so the longest is found without a search. */
  readonly #bySize = new Map<number, Line<T>[]>()
  #longest = 0
  #size = 0

  constructor(places: number) {
    this.#places = places
  }

  get size(): number {
    return this.#size
  }

  /** Returns who has to go: one of the longest line, or who came; `undefined`: there is a place for everyone. */
  push(name: string, value: T): T | undefined {
    const known = this.#lines.get(name)
    // Were it to be as long as the longest is now, nothing would be fairer than before.
    if (this.#size >= this.#places && (known?.waiting.size ?? 0) + 1 >= this.#longest) return value
    const line = known ?? { name, waiting: new Deque(), index: 0 }
    line.waiting.push(value)
    this.#moved(line, 1)
    if (!known) {
      this.#lines.set(name, line)
      this.#turns.push(line)
    }
    return this.#size > this.#places ? this.#popLongest() : undefined
  }

  /** Whose turn it is. */
  shift(): T | undefined {
    const line = this.#turns.shift()
    const value = line?.waiting.shift()
    if (!line) return undefined
    this.#moved(line, -1)
    if (line.waiting.size > 0) this.#turns.push(line)
    else this.#lines.delete(line.name)
    return value
  }

  /** At least one is left in that line: it was longer than the one that somebody came to. */
  #popLongest(): T | undefined {
    const line = this.#bySize.get(this.#longest)?.at(-1)
    const value = line?.waiting.pop()
    if (line) this.#moved(line, -1)
    return value
  }

  #moved(line: Line<T>, by: 1 | -1): void {
    const { size } = line.waiting
    this.#leave(line, size - by)
    if (size > 0) {
      const joined = this.#bySize.get(size) ?? []
      this.#bySize.set(size, joined)
      line.index = joined.push(line) - 1
    }
    if (size > this.#longest || (size - by === this.#longest && !this.#bySize.has(this.#longest))) this.#longest = size
    this.#size += by
  }

  #leave(line: Line<T>, size: number): void {
    const left = this.#bySize.get(size)
    const last = left?.pop()
    // It had none of its size, being new.
    if (!left || !last) return
    if (last !== line) {
      left[line.index] = last
      last.index = line.index
    }
    if (left.length === 0) this.#bySize.delete(size)
  }
}
