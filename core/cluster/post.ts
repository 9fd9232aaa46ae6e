import { MAX_PUBLICATION, type Sealer } from './envelope.js'
import type { RedisLink } from './redis.js'

/** Messages of one publication, and the characters above which another one is begun. */
const MAX_TOGETHER = 500
const MAX_LENGTH_TOGETHER = 256 * 1024

interface Waiting {
  messages: string[]
  length: number
  onUnheard: (() => void)[]
}

/** Sends messages to channels. What is said to one channel in one turn goes as one publication. */
export class Post {
  readonly #link: RedisLink
  readonly #sealer: Sealer
  readonly #waiting = new Map<string, Waiting>()
  #flushing: NodeJS.Immediate | undefined

  constructor(link: RedisLink, sealer: Sealer) {
    this.#link = link
    this.#sealer = sealer
  }

  /**
   * Sends a message, given as JSON; `onUnheard` is called when it is known that nobody got it. False: it is too large, or
   * Redis is away: nothing is kept for later.
   */
  send(channel: string, message: string, onUnheard?: () => void): boolean {
    if (!this.#link.isReady || message.length > MAX_PUBLICATION - 1024) return false
    let waiting = this.#waiting.get(channel)
    if (waiting && (waiting.messages.length >= MAX_TOGETHER || waiting.length + message.length > MAX_LENGTH_TOGETHER)) {
      this.#publish(channel, waiting)
      waiting = undefined
    }
    waiting ??= { messages: [], length: 0, onUnheard: [] }
    this.#waiting.set(channel, waiting)
    waiting.messages.push(message)
    waiting.length += message.length
    if (onUnheard) waiting.onUnheard.push(onUnheard)
    this.#flushing ??= setImmediate(() => this.flush())
    return true
  }

  flush(): void {
    clearImmediate(this.#flushing)
    this.#flushing = undefined
    const all = [...this.#waiting]
    this.#waiting.clear()
    for (const [channel, waiting] of all) this.#publish(channel, waiting)
  }

  #publish(channel: string, { messages, onUnheard }: Waiting): void {
    this.#link.publish(channel, this.#sealer.seal(channel, messages)).then(
      listeners => {
        if (listeners === 0) for (const unheard of onUnheard) unheard()
      },
      // Redis went away: who waits for an answer hears of that by itself.
      () => undefined,
    )
  }
}
