interface Link<T> {
  value: T
  before: Link<T> | undefined
  after: Link<T> | undefined
}

/** A queue with two ends; all of it takes the same time however long it is. */
export class Deque<T> {
  #first: Link<T> | undefined
  #last: Link<T> | undefined
  #size = 0

  get size(): number {
    return this.#size
  }

  push(value: T): void {
    const link: Link<T> = { value, before: this.#last, after: undefined }
    if (this.#last) this.#last.after = link
    else this.#first = link
    this.#last = link
    this.#size += 1
  }

  /** The first one, which it had the longest. */
  shift(): T | undefined {
    const link = this.#first
    if (!link) return undefined
    this.#first = link.after
    // An old link that refers to the next would keep it, and all after it, long after they are gone.
    link.after = undefined
    if (this.#first) this.#first.before = undefined
    else this.#last = undefined
    this.#size -= 1
    return link.value
  }

  /** The last one. */
  pop(): T | undefined {
    const link = this.#last
    if (!link) return undefined
    this.#last = link.before
    if (this.#last) this.#last.after = undefined
    else this.#first = undefined
    this.#size -= 1
    return link.value
  }
}
