import type { Log } from '../log.js'

const AGAIN_MS = 60_000

interface Texts {
  /** What is wrong, and what to do. */
  begins: string
  ends: string
  /** How often it is said again while it lasts, at most; default: once a minute. */
  againMs?: number
}

/** Tells the log of a fault that many attempts meet: when it begins, seldom while it lasts, and when it is over. */
export class LastingFault {
  readonly #log: Log
  readonly #texts: Texts
  #saidAt: number | undefined
  #unsaid = 0

  constructor(log: Log, texts: Texts) {
    this.#log = log
    this.#texts = texts
  }

  /** An attempt met it. */
  met(details: Record<string, unknown>, level: 'error' | 'warn' = 'error'): void {
    const now = performance.now()
    if (this.#saidAt !== undefined && now - this.#saidAt < (this.#texts.againMs ?? AGAIN_MS)) {
      this.#unsaid += 1
      return
    }
    this.#saidAt = now
    this.#log[level]({ ...details, ...(this.#unsaid === 0 ? {} : { unsaid: this.#unsaid }) }, this.#texts.begins)
    this.#unsaid = 0
  }

  /** An attempt did not meet it. */
  passed(): void {
    if (this.#saidAt === undefined) return
    this.#saidAt = undefined
    this.#unsaid = 0
    this.#log.info(this.#texts.ends)
  }
}
