import { createHmac, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { z } from 'zod'

/** One publication: what one gateway says to a channel at once. */
const Envelope = z.object({ from: z.string().min(1).max(64), seq: z.int().min(1), messages: z.array(z.unknown()).min(1).max(1000) })

const Failure = z.object({ code: z.string().max(64), message: z.string().max(10_000), details: z.record(z.string(), z.unknown()) })
export type Failure = z.infer<typeof Failure>

export const Message = z.discriminatedUnion('t', [
  z.object({ t: z.literal('ask'), id: z.string().min(1).max(64), m: z.string().max(64), a: z.unknown() }),
  z.object({ t: z.literal('done'), id: z.string().min(1).max(64), r: z.unknown() }),
  z.object({ t: z.literal('failed'), id: z.string().min(1).max(64), e: Failure }),
  z.object({ t: z.literal('tell'), m: z.string().max(64), a: z.unknown() }),
])
export type Message = z.infer<typeof Message>

/** Characters of one publication. A result of the largest size that a node may send fits. */
export const MAX_PUBLICATION = 16 * 1024 * 1024
const MAC_LENGTH = 43
/** Gateways whose last number is remembered; each start is another one. */
const MAX_SENDERS = 1000

/**
 * Proves that publications come from a gateway of this installation, which is one that can read its store, and that each
 * counts once and where it was sent: who reaches the bus alone can neither make, change, move nor repeat one.
 */
export class Sealer {
  readonly #key: Buffer
  readonly #from: string
  readonly #last = new LRUCache<string, number>({ max: MAX_SENDERS })
  #seq = 0

  constructor(key: Buffer, from: string) {
    this.#key = key
    this.#from = from
  }

  /** `messages`: each as JSON. */
  seal(channel: string, messages: readonly string[]): string {
    const text = `{"from":"${this.#from}","seq":${String(++this.#seq)},"messages":[${messages.join(',')}]}`
    return this.#mac(channel, text) + text
  }

  /** What was said and by whom; `undefined` for what is not proven, too large, not understood, or was heard before. */
  open(channel: string, sealed: string): { from: string; messages: unknown[] } | undefined {
    if (sealed.length <= MAC_LENGTH || sealed.length > MAX_PUBLICATION + MAC_LENGTH) return undefined
    const text = sealed.slice(MAC_LENGTH)
    if (!isSame(sealed.slice(0, MAC_LENGTH), this.#mac(channel, text))) return undefined
    const envelope = Envelope.safeParse(JSON.parse(text))
    if (!envelope.success) return undefined
    const { from, seq, messages } = envelope.data
    if (seq <= (this.#last.get(from) ?? 0)) return undefined
    this.#last.set(from, seq)
    return { from, messages }
  }

  /** Stands for a value that must not be seen where there is no key. */
  hash(value: string): string {
    return createHmac('sha256', this.#key).update('hash\n').update(value).digest('base64url').slice(0, 24)
  }

  #mac(channel: string, text: string): string {
    return createHmac('sha256', this.#key).update(channel).update('\n').update(text).digest('base64url')
  }
}

const isSame = (a: string, b: string): boolean => {
  const [left, right] = [Buffer.from(a), Buffer.from(b)]
  return left.length === right.length && timingSafeEqual(left, right)
}
