import type { Log } from '../log.js'
import { LastingFault } from './lastingFault.js'
import type { RedisLink } from './redis.js'

const MEASURE_MS = 10_000
/** What two clocks drift apart, at most, for each of their milliseconds: the tolerance of NTP (RFC 5905, MAXFREQ). */
const DRIFT = 500e-6
/** From here on a gateway says that its clock is wrong. */
const TOLD_MS = 1_000

/** How far a clock is ahead of this process's monotonic one, as measured at `atMs` of the latter; in milliseconds. */
export interface Measurement {
  aheadMs: number
  /** By how much that may be wrong at most. */
  errorMs: number
  atMs: number
}

/** A clock that was asked between these two moments and said `theirs`: Cristian's method. */
export const measured = (askedAt: number, theirs: number, answeredAt: number): Measurement => ({
  aheadMs: theirs - (askedAt + answeredAt) / 2,
  errorMs: (answeredAt - askedAt) / 2,
  atMs: answeredAt,
})

/**
 * Which of two measurements stands: the surer one, so that an answer that took its time spoils nothing. What cannot be true
 * of the same two clocks any more does not stand: one of them was set, or it is another one.
 */
export const surer = (known: Measurement | undefined, fresh: Measurement): Measurement => {
  if (!known) return fresh
  const errorMs = known.errorMs + DRIFT * (fresh.atMs - known.atMs)
  const isPossible = Math.abs(fresh.aheadMs - known.aheadMs) <= errorMs + fresh.errorMs
  return isPossible && errorMs < fresh.errorMs ? known : fresh
}

/**
 * The clock of Redis, which all gateways agree on, kept by the monotonic one of this process: it goes on while Redis is away,
 * and through changes of the machine's clock. Until Redis has been asked once it is the machine's.
 */
export class SharedClock {
  readonly #link: RedisLink
  readonly #timer: NodeJS.Timeout
  readonly #isWrong: LastingFault
  #measurement: Measurement | undefined
  #measuring: Promise<void> | undefined

  constructor(link: RedisLink, log: Log) {
    this.#link = link
    this.#timer = setInterval(() => void this.measure(), MEASURE_MS).unref()
    this.#isWrong = new LastingFault(log, {
      begins:
        'The clock of this gateway is wrong, or that of Redis, by which the times of commands and approvals go: keep both right, with NTP for example',
      ends: 'The clock of this gateway agrees with that of Redis again',
      againMs: 3_600_000,
    })
  }

  now(): number {
    return this.#measurement ? Math.floor(performance.now() + this.#measurement.aheadMs) : Date.now()
  }

  /** Asks Redis. Never rejects: what was known stands where it cannot be asked, and the lease, which needs its time too, tells why. */
  measure(): Promise<void> {
    this.#measuring ??= this.#measure()
      .catch(() => undefined)
      .finally(() => (this.#measuring = undefined))
    return this.#measuring
  }

  close(): void {
    clearInterval(this.#timer)
  }

  async #measure(): Promise<void> {
    if (!this.#link.isReady) return
    const askedAt = performance.now()
    const [seconds, microseconds] = await this.#link.commands.time()
    const theirs = Number(seconds) * 1000 + Number(microseconds) / 1000
    this.#measurement = surer(this.#measurement, measured(askedAt, theirs, performance.now()))
    const aheadMs = Date.now() - this.now()
    if (Math.abs(aheadMs) - this.#measurement.errorMs < TOLD_MS) this.#isWrong.passed()
    else this.#isWrong.met({ aheadMs: Math.round(aheadMs) }, 'warn')
  }
}
