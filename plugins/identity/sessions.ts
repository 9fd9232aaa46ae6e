import { notFound, unauthenticated } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { newId } from '../../core/id.js'
import type { Collection, Page, PageOptions } from '../../core/store/collection.js'
import { useInterval, type LastUse } from './lastUse.js'
import { permissionsOf } from './roles.js'
import type { SessionRow, Snapshot } from './rows.js'
import type { SessionTokens, TokenClaims } from './sessionTokens.js'

/** Sessions a user may have; logging in once more ends the oldest. */
export const MAX_SESSIONS = 50
const MAX_USER_AGENT_LENGTH = 200

export interface SessionTimes {
  /** From a login or refresh to the end, used or not. */
  lifetimeMs(): number
  /** From the last use to the end. */
  idleTimeoutMs(): number
}

export interface Opened {
  token: string
  expiresAt: string
  sessionId: string
}

export interface Client {
  address: string
  userAgent: string
}

/** Logins: each is a document that its token names, looked up on every request. */
export class Sessions {
  readonly #rows: Collection<SessionRow>
  readonly #tokens: SessionTokens
  readonly #lastUse: LastUse
  readonly #times: SessionTimes

  constructor(rows: Collection<SessionRow>, tokens: SessionTokens, lastUse: LastUse, times: SessionTimes) {
    this.#rows = rows
    this.#tokens = tokens
    this.#lastUse = lastUse
    this.#times = times
  }

  async open(userId: string, user: Snapshot, { address, userAgent }: Client): Promise<Opened> {
    const renewed = this.#renewed()
    const row: SessionRow = {
      id: newId('lgn'),
      userId,
      user,
      address,
      userAgent: userAgent.slice(0, MAX_USER_AGENT_LENGTH),
      createdAt: renewed.lastUsedAt,
      ...renewed,
    }
    await this.#rows.insertOne(row)
    await this.#endSurplus(userId)
    return this.#answer(row)
  }

  /** The caller behind a verified token. Rejects with `unauthenticated` when its session has ended or has a newer token. */
  async check({ userId, sessionId, tokenId, expiresAtMs }: TokenClaims): Promise<Caller> {
    const row = await this.#rows.findOne({ id: sessionId })
    const now = Date.now()
    const idleTimeoutMs = this.#times.idleTimeoutMs()
    // The session ends when its token does: the token says when, in a form that need not be parsed again.
    if (!row || row.tokenId !== tokenId || row.userId !== userId || row.user.disabled || expiresAtMs <= now) throw unauthenticated()
    const unusedMs = now - Date.parse(row.lastUsedAt)
    if (unusedMs >= idleTimeoutMs) throw unauthenticated()
    if (unusedMs > useInterval(idleTimeoutMs)) {
      const changes = { lastUsedAt: new Date(now).toISOString(), expiresAt: this.#sweepTime(now, row.endsAt) }
      this.#lastUse.note(sessionId, () => this.#rows.updateOne({ id: sessionId, tokenId }, { $set: changes }))
    }
    const { roles, tenant } = row.user
    return {
      kind: 'user',
      userId,
      tenant,
      roles,
      permissions: permissionsOf(roles),
      credential: { kind: 'session', id: row.id },
    }
  }

  /** A new token in place of this one, which ends here. Of two refreshes at once, one wins and the other is `unauthenticated`. */
  async refresh(token: string): Promise<Opened> {
    const { sessionId, tokenId } = await this.#tokens.verify(token)
    const row = await this.#rows.findOneAndUpdate({ id: sessionId, tokenId }, { $set: this.#renewed() })
    if (!row) throw unauthenticated()
    return this.#answer(row)
  }

  /** The sessions that would still be let in, newest first. */
  list(userId: string, options: PageOptions): Promise<Page<SessionRow>> {
    const now = Date.now()
    const usedSince = new Date(now - this.#times.idleTimeoutMs()).toISOString()
    return this.#rows.page({ userId, endsAt: { $gt: new Date(now).toISOString() }, lastUsedAt: { $gt: usedSince } }, options)
  }

  /** Rejects with `not_found` when the user has no such session. */
  async end(userId: string, sessionId: string): Promise<void> {
    if (!(await this.#rows.deleteOne({ id: sessionId, userId }))) throw notFound('Session')
  }

  endAll(userId: string): Promise<number> {
    return this.#rows.deleteMany({ userId })
  }

  /** Brings a user's changed roles to its sessions; an older snapshot never replaces a newer one. */
  async spread(userId: string, user: Snapshot): Promise<void> {
    await this.#rows.updateMany({ userId, 'user.version': { $lt: user.version } }, { $set: { user } })
  }

  /** What a login and a refresh have in common: a new token, a full lifetime from now on. */
  #renewed(): Pick<SessionRow, 'tokenId' | 'lastUsedAt' | 'endsAt' | 'expiresAt'> {
    const now = Date.now()
    // Whole seconds, as the token's own expiry has them.
    const endsAt = new Date(Math.ceil((now + this.#times.lifetimeMs()) / 1000) * 1000).toISOString()
    return { tokenId: newId('jwt'), lastUsedAt: new Date(now).toISOString(), endsAt, expiresAt: this.#sweepTime(now, endsAt) }
  }

  #sweepTime(lastUsedMs: number, endsAt: string): string {
    return new Date(Math.min(Date.parse(endsAt), lastUsedMs + this.#times.idleTimeoutMs())).toISOString()
  }

  async #answer({ id, userId, tokenId, endsAt }: SessionRow): Promise<Opened> {
    const token = await this.#tokens.sign({ userId, sessionId: id, tokenId, expiresAtMs: Date.parse(endsAt) })
    return { token, expiresAt: endsAt, sessionId: id }
  }

  async #endSurplus(userId: string): Promise<void> {
    const surplus = await this.#rows.find({ userId }, { sort: { createdAt: -1, id: 1 }, skip: MAX_SESSIONS })
    if (surplus.length > 0) await this.#rows.deleteMany({ id: { $in: surplus.map(({ id }) => id) } })
  }
}
