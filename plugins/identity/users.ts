import { setTimeout as sleep } from 'node:timers/promises'
import { conflict, notFound, unauthenticated, validationFailed, type Issue } from '../../core/errors.js'
import { ADMIN_ROLE } from '../../core/http/caller.js'
import { newId } from '../../core/id.js'
import { DuplicateKey, type Collection, type Page, type PageOptions } from '../../core/store/collection.js'
import { Email, Name, NewPassword, normaliseEmail } from './accountPolicy.js'
import type { Administrators } from './administrators.js'
import type { ApiTokens, NewApiToken } from './apiTokens.js'
import type { NewUser, User } from './contract.js'
import type { Passwords } from './passwords.js'
import { permissionsOf, roleNames } from './roles.js'
import type { Removals } from './removals.js'
import type { ApiTokenRow, Snapshot, UserRow } from './rows.js'
import type { Sessions } from './sessions.js'
import type { Tenants } from './tenants.js'

export interface UserChanges {
  email?: string | undefined
  name?: string | undefined
  password?: string | undefined
  roles?: string[] | undefined
  disabled?: boolean | undefined
}

/** Changes that meet another one are tried again with what that one left. */
const MAX_ATTEMPTS = 20
const MAX_PAUSE_MS = 25
const MAX_KNOWN_NETWORKS = 10
/** More administrators of the whole gateway than anyone has; the guard against removing the last one knows these. */
const MAX_ADMINISTRATORS = 1000

export const toUser = ({ id, email, name, roles, tenant }: UserRow): User => ({
  id,
  email,
  name,
  roles,
  permissions: [...permissionsOf(roles)],
  tenant,
})

export const snapshotOf = ({ version, roles, tenant, disabled }: UserRow): Snapshot => ({ version, roles, tenant, disabled })

interface Parts {
  rows: Collection<UserRow>
  passwords: Passwords
  administrators: Administrators
  tenants: Tenants
  sessions: Sessions
  tokens: ApiTokens
  removals: Pick<Removals, 'note' | 'wake'>
}

/** The users, and what follows for their sessions and tokens when they change. */
export class Users {
  readonly #parts: Parts
  readonly #rows: Collection<UserRow>

  constructor(parts: Parts) {
    this.#parts = parts
    this.#rows = parts.rows
  }

  byId(id: string): Promise<UserRow | null> {
    return this.#rows.findOne({ id })
  }

  byEmail(email: string): Promise<UserRow | null> {
    return this.#rows.findOne({ email: normaliseEmail(email) })
  }

  /** `tenant: null`: of every tenant. */
  list(tenant: string | null, options: PageOptions): Promise<Page<UserRow>> {
    return this.#rows.page(tenant === null ? {} : { tenant }, options)
  }

  /** The longest-serving enabled administrator of the whole gateway. */
  administrator(): Promise<UserRow | null> {
    return this.#rows.findOne({ gatewayAdmin: true }, { sort: { createdAt: 1 } })
  }

  async create({ email, name, password, roles, tenant = null }: NewUser): Promise<UserRow> {
    checkAccount({ email, name, password, roles })
    if (tenant !== null) await this.#parts.tenants.checkExists(tenant)
    const now = new Date().toISOString()
    const row: UserRow = {
      id: newId('usr'),
      email: normaliseEmail(email),
      name: name.trim(),
      passwordHash: await this.#parts.passwords.hash(password),
      roles: [...new Set(roles)],
      tenant,
      disabled: false,
      version: 1,
      knownNetworks: [],
      createdAt: now,
      updatedAt: now,
    }
    const administers = isGatewayAdmin(row)
    await this.#guarded(() => this.#rows.insertOne({ ...row, ...(administers ? { gatewayAdmin: true } : {}) }))
    if (administers) await this.#parts.administrators.join(row.id)
    return row
  }

  /**
   * Takes effect on the user's sessions and tokens before it resolves; a new password and disabling end the sessions.
   * Rejects with `conflict` for the last enabled administrator, or when the e-mail address is taken.
   */
  async change(id: string, { password, ...changes }: UserChanges): Promise<UserRow> {
    checkAccount({ ...changes, password })
    const set = {
      ...dropUndefined({ name: changes.name?.trim(), disabled: changes.disabled }),
      ...(changes.roles ? { roles: [...new Set(changes.roles)] } : {}),
      ...(changes.email === undefined ? {} : { email: normaliseEmail(changes.email) }),
      ...(password === undefined ? {} : { passwordHash: await this.#parts.passwords.hash(password) }),
    }
    return this.#change(id, set)
  }

  /** For the operator at the machine. Ends the user's sessions; API tokens stay. Rejects with `not_found`, and with `conflict` for one who could not log in with it. */
  async resetPassword(email: string, passwordHash: string): Promise<UserRow> {
    const row = await this.byEmail(email)
    if (!row) throw notFound(`User ${email}`)
    if (row.disabled) throw conflict(`The user ${email} is disabled: an administrator has to enable it first`)
    return this.#change(row.id, { passwordHash })
  }

  async #change(id: string, set: Partial<UserRow>): Promise<UserRow> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const row = await this.byId(id)
      if (!row) throw notFound('User')
      const changed = await this.#replace(row, set)
      if (changed) {
        await this.#spread(changed)
        return changed
      }
      await sleep(Math.random() * MAX_PAUSE_MS)
    }
    throw busy()
  }

  /**
   * Ends its sessions and tokens first, so that an interrupted removal leaves a disabled user, not a live credential.
   * What it had elsewhere is ended behind this.
   */
  async remove(id: string): Promise<void> {
    for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
      const { version, tenant } = await this.change(id, { disabled: true })
      await this.#parts.tokens.removeAll(id)
      await this.#parts.sessions.endAll(id)
      await this.#parts.removals.note({ tenant, userId: id })
      // Whoever was enabled again meanwhile may be an administrator, who is not removed without leaving.
      if ((await this.#rows.deleteOne({ id, version })) || !(await this.byId(id))) {
        this.#parts.removals.wake()
        return
      }
    }
    throw busy()
  }

  /** A new API token of the user, with what it may do at this moment; see `ApiTokens.create` for what is refused. */
  async createToken(id: string, wanted: NewApiToken, madeWith?: string): Promise<{ row: ApiTokenRow; token: string }> {
    const user = await this.byId(id)
    if (!user) throw unauthenticated()
    const created = await this.#parts.tokens.create(id, snapshotOf(user), wanted, madeWith)
    const current = await this.byId(id)
    // What changed while the token was made did not reach it.
    if (!current) {
      await this.#parts.tokens.removeAll(id)
      throw unauthenticated()
    }
    if (current.version !== user.version) await this.#parts.tokens.spread(id, snapshotOf(current))
    return created
  }

  /** Remembers where a user logs in from. */
  async noteNetwork({ id, knownNetworks }: UserRow, network: string): Promise<void> {
    if (knownNetworks.includes(network)) return
    await this.#rows.updateOne({ id }, { $push: { knownNetworks: { $each: [network], $slice: -MAX_KNOWN_NETWORKS } } })
  }

  /** Finishes what a crash interrupted. */
  async recover(): Promise<void> {
    const administrators = await this.#rows.find({ gatewayAdmin: true }, { limit: MAX_ADMINISTRATORS })
    await this.#parts.administrators.reconcile(administrators.map(({ id }) => id))
    for (const row of await this.#rows.find({ spreading: { $exists: true } })) await this.#spread(row)
  }

  /** `null`: somebody else changed the user meanwhile, or is about to. */
  async #replace(row: UserRow, set: Partial<UserRow>): Promise<UserRow | null> {
    const next = { ...row, ...set }
    const administers = isGatewayAdmin(next)
    const endsSessions = set.passwordHash !== undefined || next.disabled || row.spreading === 'logout'
    const leaves = row.gatewayAdmin === true && !administers
    if (leaves && !(await this.#parts.administrators.leave(row.id))) return null
    let changed: UserRow | null = null
    try {
      changed = await this.#guarded(() =>
        this.#rows.findOneAndUpdate(
          { id: row.id, version: row.version },
          {
            $set: {
              ...set,
              spreading: endsSessions ? 'logout' : 'snapshot',
              updatedAt: new Date().toISOString(),
              ...(administers ? { gatewayAdmin: true } : {}),
            },
            ...(administers ? {} : { $unset: { gatewayAdmin: '' } }),
            $inc: { version: 1 },
          },
        ),
      )
    } finally {
      if (leaves && !changed) await this.#parts.administrators.join(row.id)
    }
    if (changed && administers && !row.gatewayAdmin) await this.#parts.administrators.join(row.id)
    return changed
  }

  async #spread(row: UserRow): Promise<void> {
    const { sessions, tokens } = this.#parts
    await Promise.all([sessions.spread(row.id, snapshotOf(row)), tokens.spread(row.id, snapshotOf(row))])
    if (row.spreading === 'logout') await sessions.endAll(row.id)
    await this.#rows.updateOne({ id: row.id, version: row.version }, { $unset: { spreading: '' } })
  }

  async #guarded<T>(write: () => Promise<T>): Promise<T> {
    try {
      return await write()
    } catch (error) {
      if (error instanceof DuplicateKey) throw conflict('There is a user with this e-mail address already')
      throw error
    }
  }
}

const busy = (): Error => conflict('The user was being changed by others: try again')

const isGatewayAdmin = ({ roles, tenant, disabled }: UserRow): boolean => roles.includes(ADMIN_ROLE) && tenant === null && !disabled

const dropUndefined = <T extends object>(values: T): { [K in keyof T]?: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== undefined)) as { [K in keyof T]?: Exclude<T[K], undefined> }

/** The rules for accounts, whoever makes them. */
const checkAccount = ({ email, name, password, roles }: Pick<UserChanges, 'email' | 'name' | 'password' | 'roles'>): void => {
  const issues: Issue[] = []
  const check = (path: string, schema: typeof Email, value: string | undefined): void => {
    const result = value === undefined ? undefined : schema.safeParse(value)
    if (result && !result.success) issues.push({ path, message: result.error.issues[0]?.message ?? 'not valid' })
  }
  check('email', Email, email)
  check('name', Name, name)
  check('password', NewPassword, password)
  const unknown = roles?.find(role => !roleNames.includes(role))
  if (unknown !== undefined) issues.push({ path: 'roles', message: `there is no role ${unknown.slice(0, 100)}` })
  if (roles?.length === 0) issues.push({ path: 'roles', message: 'a user has one role at least' })
  if (issues.length > 0) throw validationFailed(issues)
}
