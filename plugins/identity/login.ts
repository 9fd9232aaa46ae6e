import { unauthenticated } from '../../core/errors.js'
import { networkOf } from '../../core/http/network.js'
import type { Audit } from '../audit/contract.js'
import { normaliseEmail } from './accountPolicy.js'
import type { Attempt, LoginThrottle } from './loginThrottle.js'
import type { Argon, Passwords } from './passwords.js'
import type { UserRow } from './rows.js'
import type { Client, Opened, Sessions } from './sessions.js'
import { snapshotOf, type Users } from './users.js'

interface Parts {
  users: Users
  sessions: Sessions
  passwords: Passwords
  throttle: LoginThrottle
  audit: Audit
}

export interface LoggedIn extends Opened {
  user: UserRow
}

/** Logs users in. Wrong addresses, wrong passwords and disabled users are not told apart, in answer or in time. */
export class Login {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Rejects with `unauthenticated`, or with `rate_limited` after repeated failures and when too many log in at once. */
  async login(email: string, password: string, client: Client): Promise<LoggedIn> {
    const { users, sessions, throttle, passwords, audit } = this.#parts
    const user = await users.byEmail(email)
    const network = networkOf(client.address)
    const attempt = { email: normaliseEmail(email), network, familiar: user?.knownNetworks.includes(network) ?? false }
    await throttle.check(attempt)
    const proven = await passwords.turn(argon => this.#prove(argon, user, password, attempt))
    const { tenant, roles } = proven
    await users.noteNetwork(proven, network)
    const opened = await sessions.open(proven.id, snapshotOf(proven), client)
    const current = await this.#confirm(proven)
    const credential = { kind: 'session', id: opened.sessionId } as const
    await audit.record(
      { kind: 'user', userId: proven.id, tenant, roles, permissions: [], credential },
      { action: 'auth.login', target: proven.id },
    )
    return { ...opened, user: current }
  }

  /** Runs in a turn, where few run at once: counting failures after the check cannot be outrun by many guesses at a time. */
  async #prove(argon: Argon, user: UserRow | null, password: string, attempt: Attempt): Promise<UserRow> {
    const { throttle, audit } = this.#parts
    await throttle.check(attempt)
    const matches = await argon.verify(user?.passwordHash, password)
    if (user && matches && !user.disabled) {
      await throttle.succeeded(attempt)
      return user
    }
    await throttle.failed(attempt)
    // What was typed as an address may be a password: only what looks like an address is kept.
    const target = attempt.email.includes('@') ? attempt.email : 'not an e-mail address'
    await audit.record(null, { action: 'auth.login', target, outcome: 'refused', details: { network: attempt.network } })
    throw unauthenticated('The e-mail address or the password is wrong')
  }

  /** A user that was changed while it logged in gets no session on the strength of what it was. */
  async #confirm(proven: UserRow): Promise<UserRow> {
    const { users, sessions } = this.#parts
    const current = await users.byId(proven.id)
    if (!current || current.disabled || current.passwordHash !== proven.passwordHash) {
      await sessions.endAll(proven.id)
      throw unauthenticated('The e-mail address or the password is wrong')
    }
    if (current.version !== proven.version) await sessions.spread(current.id, snapshotOf(current))
    return current
  }
}
