import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { conflict, missingPermission, notAuthorized, notFound, unauthenticated, validationFailed } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import type { Collection, Page, PageOptions } from '../../core/store/collection.js'
import { useInterval, type LastUse } from './lastUse.js'
import { permissions as allPermissions } from './permissions.js'
import { permissionsOf } from './roles.js'
import type { ApiTokenRow, Snapshot } from './rows.js'

export const TOKEN_PREFIX = 'sk_'
/** API tokens a user may have. */
export const MAX_TOKENS = 100
const DAY_MS = 86_400_000

/** `sk_`, 16 characters that find the token, and 32 (192 random bits) that prove it. */
const FORMAT = /^sk_([A-Za-z0-9_-]{16})([A-Za-z0-9_-]{32})$/

const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('base64url')

export interface NewApiToken {
  name: string
  expiresInDays?: number | undefined
  permissions?: string[] | undefined
}

/** Long-lived tokens: `sk_...`, of which only a hash is kept. */
export class ApiTokens {
  readonly #rows: Collection<ApiTokenRow>
  readonly #lastUse: LastUse

  constructor(rows: Collection<ApiTokenRow>, lastUse: LastUse) {
    this.#rows = rows
    this.#lastUse = lastUse
  }

  /**
   * The stored token and, this once, its text. Rejects with `validation_failed` for an unknown permission,
   * `not_authorized` for one that the user lacks, and `conflict` when the user has too many tokens. A token made with
   * another one, `madeWith`, must not outlive it: `not_authorized`.
   */
  async create(
    userId: string,
    user: Snapshot,
    { name, expiresInDays, permissions }: NewApiToken,
    madeWith?: string,
  ): Promise<{ row: ApiTokenRow; token: string }> {
    checkPermissions(permissions ?? [], permissionsOf(user.roles))
    const selector = randomBytes(12).toString('base64url')
    const secret = randomBytes(24).toString('base64url')
    const now = Date.now()
    const row: ApiTokenRow = {
      id: `tok_${selector}`,
      userId,
      name,
      hash: hashOf(secret),
      permissions: permissions ? [...new Set(permissions)] : null,
      user,
      createdAt: new Date(now).toISOString(),
      lastUsedAt: null,
      ...(expiresInDays === undefined ? {} : { expiresAt: new Date(now + expiresInDays * DAY_MS).toISOString() }),
    }
    if (madeWith !== undefined) await this.#checkOutlived(row, madeWith)
    await this.#rows.insertOne(row)
    // Counted after the insertion, so that creating many at once cannot pass the limit.
    if ((await this.#rows.count({ userId })) > MAX_TOKENS) {
      await this.#rows.deleteOne({ id: row.id })
      throw conflict(`A user may have ${MAX_TOKENS} API tokens: delete one that is no longer needed`)
    }
    return { row, token: `${TOKEN_PREFIX}${selector}${secret}` }
  }

  /** The caller behind a token. Rejects with `unauthenticated` when it is unknown, expired or its user disabled. */
  async check(token: string): Promise<Caller> {
    const [, selector, secret] = FORMAT.exec(token) ?? []
    const row = selector === undefined ? null : await this.#rows.findOne({ id: `tok_${selector}` })
    if (!row || secret === undefined || !timingSafeEqual(Buffer.from(hashOf(secret)), Buffer.from(row.hash))) throw unauthenticated()
    const now = Date.now()
    if (row.user.disabled || hasEnded(row)) throw unauthenticated()
    if (row.lastUsedAt === null || now - Date.parse(row.lastUsedAt) > useInterval(Infinity))
      this.#lastUse.note(row.id, () => this.#rows.updateOne({ id: row.id }, { $set: { lastUsedAt: new Date(now).toISOString() } }))
    return callerOf(row)
  }

  list(userId: string, options: PageOptions): Promise<Page<ApiTokenRow>> {
    const stillGood = [{ expiresAt: { $exists: false } }, { expiresAt: { $gt: new Date().toISOString() } }]
    return this.#rows.page({ userId, $or: stillGood }, options)
  }

  /** Rejects with `not_found` when the user has no such token, or it has expired. */
  async find(userId: string, id: string): Promise<ApiTokenRow> {
    const row = await this.#rows.findOne({ id, userId })
    if (!row || hasEnded(row)) throw notFound('API token')
    return row
  }

  /** Rejects with `not_found` when the user has no such token. */
  async remove(userId: string, id: string): Promise<void> {
    if (!(await this.#rows.deleteOne({ id, userId }))) throw notFound('API token')
  }

  async removeAll(userId: string): Promise<void> {
    await this.#rows.deleteMany({ userId })
  }

  async #checkOutlived({ expiresAt }: ApiTokenRow, madeWith: string): Promise<void> {
    const maker = await this.#rows.findOne({ id: madeWith })
    if (!maker) throw unauthenticated()
    if (maker.expiresAt !== undefined && (expiresAt === undefined || expiresAt > maker.expiresAt))
      throw notAuthorized(`A token cannot make one that outlives it: this one ends at ${maker.expiresAt}. Use a login`)
  }

  /** Brings a user's changed roles to its tokens; an older snapshot never replaces a newer one. */
  async spread(userId: string, user: Snapshot): Promise<void> {
    await this.#rows.updateMany({ userId, 'user.version': { $lt: user.version } }, { $set: { user } })
  }
}

const hasEnded = ({ expiresAt }: ApiTokenRow): boolean => expiresAt !== undefined && Date.parse(expiresAt) <= Date.now()

/** A token with a list carries no role, and of the list what its user still has. */
const callerOf = ({ id, userId, user, permissions }: ApiTokenRow): Caller => {
  const owned = permissionsOf(user.roles)
  return {
    kind: 'user',
    userId,
    tenant: user.tenant,
    roles: permissions ? [] : user.roles,
    permissions: permissions ? permissions.filter(permission => owned.includes(permission)) : owned,
    credential: { kind: 'token', id },
  }
}

const checkPermissions = (wanted: readonly string[], owned: readonly string[]): void => {
  const unknown = wanted.flatMap((name, index) =>
    Object.hasOwn(allPermissions, name) ? [] : [{ path: `permissions.${index}`, message: `there is no permission ${name.slice(0, 100)}` }],
  )
  if (unknown.length > 0) throw validationFailed(unknown)
  const lacking = wanted.find(name => !owned.includes(name))
  if (lacking !== undefined) throw missingPermission(lacking)
}
