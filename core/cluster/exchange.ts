import { LRUCache } from 'lru-cache'
import { Asked, KeptAnswers } from './answered.js'
import { catalogue, GatewayError, rateLimited, serviceUnavailable, type ErrorCode } from '../errors.js'
import type { Log } from '../log.js'
import { Unreachable, type AskOptions, type RequestRef } from './cluster.js'
import type { Failure, Message } from './envelope.js'

/** Requests of this gateway that wait for their answers, and of others that are worked on here. */
const MAX_PENDING = 10_000
const MAX_WORKING = 10_000
/** Places for requests that wait, more than there may be of them: a new one soon finds one that is free. */
const PLACES = 16_384
/** Characters of requests that are kept to be asked again. */
const MAX_KEPT = 64 * 1024 * 1024
/** How long a patient request outlasts an absence of the bus, in milliseconds. */
export const PATIENCE_MS = 5_000
const ASK_AGAIN_MS = 100
/** Answers that may wait for the bus. */
const MAX_UNSENT = 2_000
/** Gateways whose requests are known; each start is another one. */
const MAX_ASKERS = 500

interface Pending {
  id: string
  gateway: string
  text: string
  isPatient: boolean
  settle: (outcome: { result: unknown } | { error: Error }) => void
}

interface Parts {
  /** Sends to a gateway. False: it cannot be sent now. */
  send: (gateway: string, message: string, onUnheard?: () => void) => boolean
  /** For how long the bus has been away, and for how long it has been back, in milliseconds. */
  awayMs: () => number
  backMs: () => number
  log: Log
}

type Handler = { ref: RequestRef<unknown, unknown>; handle: (argument: unknown) => Promise<unknown> }

/** Requests between gateways: each asked for at most as long as it may take, and answered once. */
export class Exchange {
  readonly #parts: Parts
  readonly #handlers = new Map<string, Handler>()
  /** Each in the place of its number. Not a map, whose old tables would keep all that ever stood in them for long. */
  readonly #places = new Array<Pending | undefined>(PLACES).fill(undefined)
  #waiting = 0
  /** Characters of what waits. */
  #kept = 0
  /** The number of the last request of this gateway. */
  #last = 0
  readonly #askers = new LRUCache<string, Asked>({ max: MAX_ASKERS })
  readonly #answers = new KeptAnswers()
  /** Requests of others that are worked on. */
  #working = 0
  /** Answers that could not be sent while the bus was away. */
  readonly #unsent = new LRUCache<string, { from: string; id: string }>({ max: MAX_UNSENT })

  constructor(parts: Parts) {
    this.#parts = parts
  }

  answer<A, R>(ref: RequestRef<A, R>, handle: (argument: A) => Promise<R>): () => void {
    this.#handlers.set(ref.id, { ref, handle: handle as Handler['handle'] })
    return () => this.#handlers.delete(ref.id)
  }

  ask<A, R>(gateway: string, ref: RequestRef<A, R>, argument: A, { timeoutMs, patient = false }: AskOptions): Promise<R> {
    return new Promise((resolve, reject) => {
      if (this.#waiting >= MAX_PENDING) throw rateLimited(1, 'Too many requests wait for other gateways')
      const place = this.#freePlace()
      const id = String(this.#last)
      const text = JSON.stringify({ t: 'ask', id, m: ref.id, a: argument } satisfies Message)
      if (this.#kept + text.length > MAX_KEPT) throw rateLimited(1, 'Too much waits for other gateways')
      const late = setTimeout(() => {
        settle({ error: new Unreachable(`The gateway with it did not answer within ${String(timeoutMs)} ms`, true) })
      }, timeoutMs)
      const settle: Pending['settle'] = outcome => {
        if (this.#places[place] !== pending) return
        this.#places[place] = undefined
        this.#waiting -= 1
        this.#kept -= text.length
        clearTimeout(late)
        if ('error' in outcome) reject(outcome.error)
        else understand(ref, outcome.result, resolve, reject)
      }
      const pending: Pending = { id, gateway, text, isPatient: patient, settle }
      this.#places[place] = pending
      this.#waiting += 1
      this.#kept += text.length
      this.#send(pending)
    })
  }

  /** A message of another gateway. False: it makes no sense here. */
  receive(from: string, message: Message): boolean {
    if (message.t === 'ask') return this.#work(from, message)
    if (message.t === 'tell') return false
    const pending = this.#places[Number(message.id) % PLACES]
    // An answer that came too late, or twice.
    if (pending?.id !== message.id) return true
    if (pending.gateway !== from) return false
    pending.settle(message.t === 'done' ? { result: message.r } : { error: toError(message.e) })
    return true
  }

  /** The bus went away: who cannot wait hears of it now. */
  away(): void {
    for (const { isPatient, settle } of this.#pending()) if (!isPatient) settle(lost)
  }

  /** The bus is still away. */
  stillAway(): void {
    if (this.#parts.awayMs() > PATIENCE_MS) for (const { settle } of this.#pending()) settle(lost)
  }

  /** The bus is back: what was asked before may not have arrived, and neither its answer. */
  back(): void {
    for (const pending of this.#pending()) this.#send(pending)
    const unsent = [...this.#unsent.values()]
    this.#unsent.clear()
    for (const { from, id } of unsent) this.#reply(from, id)
  }

  /** These gateways are alive, and no others. */
  living(gateways: ReadonlySet<string>): void {
    if (this.#parts.backMs() < PATIENCE_MS) return
    for (const { gateway, settle } of this.#pending()) if (!gateways.has(gateway)) settle(lost)
  }

  close(): void {
    for (const { settle } of this.#pending()) settle({ error: serviceUnavailable('The gateway is stopping') })
  }

  /** The place of the next number whose place is free. */
  #freePlace(): number {
    do this.#last += 1
    while (this.#places[this.#last % PLACES] !== undefined)
    return this.#last % PLACES
  }

  #pending(): Pending[] {
    return this.#places.filter(place => place !== undefined).sort((a, b) => Number(a.id) - Number(b.id))
  }

  #send(pending: Pending): void {
    const { id, gateway, text, isPatient, settle } = pending
    if (this.#places[Number(id) % PLACES] !== pending) return
    const unheard = (): void => {
      // After an absence the other gateway may come back a little later than this one.
      if (isPatient && this.#parts.backMs() < PATIENCE_MS) setTimeout(() => this.#send(pending), ASK_AGAIN_MS)
      else settle({ error: new Unreachable('The gateway with it is gone', false) })
    }
    if (this.#parts.send(gateway, text, unheard)) return
    const awayMs = this.#parts.awayMs()
    if (isPatient && awayMs > 0 && awayMs <= PATIENCE_MS) return
    settle({ error: new Unreachable('The other gateways cannot be reached', false) })
  }

  #work(from: string, { id, m, a }: Extract<Message, { t: 'ask' }>): boolean {
    const number = Number(id)
    if (!Number.isSafeInteger(number) || number < 1) return false
    const asked = this.#askedBy(from)
    const state = asked.state(number)
    if (state === 'answered') this.#reply(from, id)
    if (state !== 'new') return true
    const handler = this.#handlers.get(m)
    const argument = handler?.ref.argument.safeParse(a)
    if (!handler || !argument?.success) {
      this.#parts.send(from, failure(id, { code: NOT_UNDERSTOOD, message: 'The request is not understood here', details: {} }))
      return false
    }
    if (this.#working >= MAX_WORKING) {
      this.#parts.send(from, failure(id, { code: 'rate_limited', message: 'The gateway with it has too much to do', details: {} }))
      return true
    }
    asked.take(number)
    this.#working += 1
    this.#answer(from, id, () => handler.handle(argument.data), m)
      .catch((error: unknown) => this.#parts.log.error({ err: error }, `the answer to ${m} of another gateway could not be sent`))
      .finally(() => {
        this.#working -= 1
        asked.answer(number)
      })
    return true
  }

  async #answer(from: string, id: string, work: () => Promise<unknown>, what: string): Promise<void> {
    let text: string
    try {
      text = JSON.stringify({ t: 'done', id, r: await work() } satisfies Message)
    } catch (error) {
      text = failure(id, this.#toFailure(error, what))
    }
    this.#answers.keep(from, id, text)
    this.#reply(from, id, text)
  }

  #askedBy(gateway: string): Asked {
    const known = this.#askers.get(gateway)
    if (known) return known
    const asked = new Asked()
    this.#askers.set(gateway, asked)
    return asked
  }

  /** Sends what was answered, as soon as that can be done. */
  #reply(from: string, id: string, answer?: string): void {
    const text =
      answer ?? this.#answers.find(from, id) ?? failure(id, { code: 'service_unavailable', message: 'Answered before', details: {} })
    const again = (): void => {
      // After an absence the other gateway may listen a little later than this one speaks.
      if (this.#parts.backMs() < PATIENCE_MS) setTimeout(() => this.#reply(from, id), ASK_AGAIN_MS)
    }
    if (this.#parts.send(from, text, again)) return
    if (this.#parts.awayMs() > 0) this.#unsent.set(`${from} ${id}`, { from, id })
    else this.#parts.send(from, failure(id, { code: 'service_unavailable', message: 'The answer could not be passed on', details: {} }))
  }

  #toFailure(error: unknown, what: string): Failure {
    if (error instanceof GatewayError) return { code: error.code, message: error.message.slice(0, 10_000), details: error.details }
    this.#parts.log.error({ err: error }, `${what}, asked for by another gateway, failed`)
    return { code: 'internal_error', message: 'Something went wrong in the other gateway', details: {} }
  }
}

const understand = <R>(
  ref: RequestRef<unknown, R>,
  result: unknown,
  resolve: (result: R) => void,
  reject: (error: Error) => void,
): void => {
  const understood = ref.result.safeParse(result)
  if (understood.success) resolve(understood.data)
  // Gateways of two versions live side by side while an installation is upgraded.
  else reject(new Unreachable('The gateway with it answers in a way that is not understood here', true))
}

/** Gateways of another version may not know what they are asked. */
const NOT_UNDERSTOOD = 'not_understood'

const lost = { error: new Unreachable('The connection to the gateway with it was lost', true) }

const failure = (id: string, e: Failure): string => JSON.stringify({ t: 'failed', id, e } satisfies Message)

const toError = ({ code, message, details }: Failure): Error => {
  if (code === NOT_UNDERSTOOD) return new Unreachable('The gateway with it does not understand what it is asked', false)
  return Object.hasOwn(catalogue, code) ? new GatewayError(code as ErrorCode, message, { details }) : new Error(message)
}
