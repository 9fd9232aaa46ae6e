import { MAX_PUBLICATION, type Sealer } from './envelope.js'
import type { RedisLink } from './redis.js'

/** Messages and characters of one publication, above which another one is made. */
const MAX_TOGETHER = 500
const MAX_LENGTH_TOGETHER = 256 * 1024
/** Characters that may wait to be sent, to all channels together. */
const MAX_WAITING = 64 * 1024 * 1024

interface Letter {
  message: string
  onUnheard: (() => void) | undefined
}

interface Channel {
  waiting: Letter[]
  /** A publication is on its way to Redis. */
  isBusy: boolean
}

/**
 * Sends messages to channels. What is said while a publication to the same channel is on its way goes together as the
 * next one: one at a time costs no time, many at once cost little work.
 */
export class Post {
  readonly #link: RedisLink
  readonly #sealer: Sealer
  readonly #channels = new Map<string, Channel>()
  readonly #due = new Set<string>()
  #waiting = 0
  #flushing: NodeJS.Immediate | undefined

  constructor(link: RedisLink, sealer: Sealer) {
    this.#link = link
    this.#sealer = sealer
  }

  /**
   * Sends a message, given as JSON; `onUnheard` is called when it is known that nobody got it. False: it is too large, too
   * much waits, or Redis is away: nothing is kept for later.
   */
  send(channel: string, message: string, onUnheard?: () => void): boolean {
    if (!this.#link.isReady || message.length > MAX_PUBLICATION - 1024 || this.#waiting + message.length > MAX_WAITING) return false
    const known = this.#channels.get(channel) ?? { waiting: [], isBusy: false }
    this.#channels.set(channel, known)
    known.waiting.push({ message, onUnheard })
    this.#waiting += message.length
    if (!known.isBusy) {
      this.#due.add(channel)
      this.#flushing ??= setImmediate(() => this.flush())
    }
    return true
  }

  flush(): void {
    clearImmediate(this.#flushing)
    this.#flushing = undefined
    for (const channel of this.#due) this.#publish(channel)
    this.#due.clear()
  }

  #publish(name: string): void {
    const channel = this.#channels.get(name)
    if (!channel || channel.isBusy) return
    const letters = this.#take(channel)
    if (letters.length === 0) {
      this.#channels.delete(name)
      return
    }
    channel.isBusy = true
    const sealed = this.#sealer.seal(
      name,
      letters.map(({ message }) => message),
    )
    this.#link.publish(name, sealed).then(
      listeners => {
        if (listeners === 0) for (const { onUnheard } of letters) onUnheard?.()
        channel.isBusy = false
        this.#publish(name)
      },
      () => {
        // Redis went away: who waits for an answer hears of that by itself.
        channel.isBusy = false
        if (this.#link.isReady) {
          this.#publish(name)
          return
        }
        for (const { message } of channel.waiting) this.#waiting -= message.length
        if (this.#channels.get(name) === channel) this.#channels.delete(name)
      },
    )
  }

  #take({ waiting }: Channel): Letter[] {
    let count = 0
    let length = 0
    for (const { message } of waiting) {
      if (count > 0 && (count >= MAX_TOGETHER || length + message.length > MAX_LENGTH_TOGETHER)) break
      count += 1
      length += message.length
    }
    this.#waiting -= length
    return waiting.splice(0, count)
  }
}
