import { conflict, notAuthorized, notFound, validationFailed } from '../../core/errors.js'
import { ADMIN_ROLE, type Caller } from '../../core/http/caller.js'
import { newId } from '../../core/id.js'
import { DuplicateKey, type Collection, type Page, type PageOptions } from '../../core/store/collection.js'
import type { TenantRow } from './rows.js'

export class Tenants {
  readonly #rows: Collection<TenantRow>

  constructor(rows: Collection<TenantRow>) {
    this.#rows = rows
  }

  /** Rejects with `conflict` when the slug is taken. */
  async create(slug: string, name: string): Promise<TenantRow> {
    const row = { id: newId('ten'), slug, name, createdAt: new Date().toISOString() }
    try {
      await this.#rows.insertOne(row)
    } catch (error) {
      if (error instanceof DuplicateKey) throw conflict(`There is a tenant with the slug ${slug} already`)
      throw error
    }
    return row
  }

  /** All of them, or the one that the caller is bound to. */
  list(tenant: string | null, options: PageOptions): Promise<Page<TenantRow>> {
    return this.#rows.page(tenant === null ? {} : { slug: tenant }, options)
  }

  /** Rejects with `not_found`, also for a tenant that the caller is not bound to. */
  async find(tenant: string | null, id: string): Promise<TenantRow> {
    const row = await this.#rows.findOne({ id })
    if (!row || (tenant !== null && row.slug !== tenant)) throw notFound('Tenant')
    return row
  }

  async checkExists(slug: string): Promise<void> {
    if (!(await this.#rows.findOne({ slug })))
      throw validationFailed([{ path: 'tenant', message: `there is no tenant ${slug.slice(0, 63)}` }])
  }

  /**
   * Users and nodes work in their own tenant. An administrator who belongs to none may work in any. Whoever is not
   * known yet is not bound: clients send their header with every request, also to log in.
   */
  readonly bind = (caller: Caller, slug: string | undefined): Caller | Promise<Caller> => {
    if (slug === undefined || slug === caller.tenant || caller.kind === 'anonymous') return caller
    if (caller.tenant !== null || caller.kind !== 'user' || !caller.roles.includes(ADMIN_ROLE)) throw foreignTenant()
    return this.#enter(caller, slug)
  }

  async #enter(caller: Caller, slug: string): Promise<Caller> {
    if (!(await this.#rows.findOne({ slug }))) throw foreignTenant()
    return { ...caller, tenant: slug, visiting: true }
  }
}

const foreignTenant = (): Error => notAuthorized('This tenant is not open to you')
