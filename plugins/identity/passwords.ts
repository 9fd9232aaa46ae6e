import type PQueue from 'p-queue'
import { rateLimited } from '../../core/errors.js'
import { normalisePassword } from './accountPolicy.js'

/** argon2id as OWASP's password storage cheat sheet has it: 19 MiB, 2 passes, 1 lane. */
const COST = { memoryCost: 19_456, timeCost: 2, parallelism: 1 }
/** Hashes at once: with the cost above, at most 38 MiB, and two of libuv's four threads stay free for files. */
const CONCURRENCY = 2
/** Those who wait for a turn; more are told to come back. */
const MAX_WAITING = 64

/** Hashes and checks passwords off the main thread, a few at a time. */
export class Passwords {
  #queue: Promise<PQueue> | undefined
  #dummy: Promise<string> | undefined
  #waiting = 0

  /** Waits for a turn, then runs the work, which may hash and check. Rejects with `rate_limited` when too many wait already. */
  async turn<T>(work: (argon: Argon) => Promise<T>): Promise<T> {
    if (this.#waiting >= MAX_WAITING) throw rateLimited(1, 'Too many logins at once')
    this.#waiting += 1
    try {
      this.#queue ??= import('p-queue').then(({ default: Queue }) => new Queue({ concurrency: CONCURRENCY }))
      return await (await this.#queue).add(() => work(this.#argon))
    } finally {
      this.#waiting -= 1
    }
  }

  hash(password: string): Promise<string> {
    return this.turn(({ hash }) => hash(password))
  }

  readonly #argon: Argon = {
    hash: async password => {
      const { hash, argon2id } = await import('argon2')
      return hash(normalisePassword(password), { type: argon2id, ...COST })
    },
    verify: async (stored, password) => {
      const { verify } = await import('argon2')
      // Someone unknown costs the same as someone known.
      this.#dummy ??= this.#argon.hash('nobody has this password')
      const matches = await verify(stored ?? (await this.#dummy), normalisePassword(password))
      return stored !== undefined && matches
    },
  }
}

export interface Argon {
  readonly hash: (password: string) => Promise<string>
  /** Never true without a stored hash, and takes as long. */
  readonly verify: (stored: string | undefined, password: string) => Promise<boolean>
}
