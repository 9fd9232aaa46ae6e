/**
 * Looks for work when it is woken, one look at a time: wakes during a look make one more. `look` does what is due and
 * resolves with the milliseconds until the next look, or with `undefined` for when it is woken. It must not reject.
 */
export class Looks {
  readonly #look: () => Promise<number | undefined>
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<void> | undefined
  #again = false
  #open = false

  constructor(look: () => Promise<number | undefined>) {
    this.#look = look
  }

  get isOpen(): boolean {
    return this.#open
  }

  start(): void {
    this.#open = true
    this.wake()
  }

  wake(): void {
    if (!this.#open) return
    clearTimeout(this.#timer)
    this.#again = true
    this.#looking ??= this.#begin().then(wait => {
      this.#end(wait)
    })
  }

  /** Waits for the look under way. */
  async stop(): Promise<void> {
    this.#open = false
    clearTimeout(this.#timer)
    await this.#looking
  }

  #begin(): Promise<number | undefined> {
    this.#again = false
    return this.#look()
  }

  #end(wait: number | undefined): void {
    this.#looking = undefined
    if (this.#again) this.wake()
    else if (this.#open && wait !== undefined) this.#timer = setTimeout(() => this.wake(), wait).unref()
  }
}
