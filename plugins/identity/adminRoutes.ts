import { z } from 'zod'
import { GatewayError, notAuthorized, notFound } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { pageOf, pageOfList, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import type { Audit } from '../audit/contract.js'
import { Email, MAX_NAME_LENGTH, Name, NewPassword, TenantSlug } from './accountPolicy.js'
import { User } from './contract.js'
import { permissions } from './permissions.js'
import { roles, USER_ROLE } from './roles.js'
import type { TenantRow, UserRow } from './rows.js'
import type { Sessions } from './sessions.js'
import type { Tenants } from './tenants.js'
import { toUser, type Users } from './users.js'

const AdminUser = User.extend({ disabled: z.boolean(), createdAt: z.string(), updatedAt: z.string() }).meta({ id: 'AdminUser' })

const Roles = z.array(z.string().max(100)).min(1).max(20)

const NewUser = z.object({
  email: Email,
  name: Name.optional().meta({ description: 'Default: what stands before the @ of the e-mail address' }),
  password: NewPassword,
  roles: Roles.default([USER_ROLE]),
  tenant: TenantSlug.nullable().optional().meta({ description: 'Default: the tenant that the request works in' }),
})

const UserChanges = z.object({
  email: Email.optional(),
  name: Name.optional(),
  password: NewPassword.optional(),
  roles: Roles.optional(),
  disabled: z.boolean().optional(),
})

const Role = z
  .object({
    name: z.string(),
    description: z.string(),
    permissions: z.array(z.object({ name: z.string(), description: z.string() })),
  })
  .meta({ id: 'Role' })

const Tenant = z.object({ id: z.string(), slug: z.string(), name: z.string(), createdAt: z.string() }).meta({ id: 'Tenant' })

const NewTenant = z.object({ slug: TenantSlug, name: Name.optional().meta({ description: 'Default: the slug' }) })

const Ended = z.object({ sessionsEnded: z.int() }).meta({ id: 'SessionsEnded' })

const byId = z.object({ id: z.string().min(1).max(200) })

interface Parts {
  users: Users
  sessions: Sessions
  tenants: Tenants
  audit: Audit
  rotateSigningKey: () => Promise<void>
}

export const adminRoutes = (parts: Parts): Route[] => [...userRoutes(parts), ...roleRoutes(), ...tenantRoutes(parts), ...keyRoutes(parts)]

const userRoutes = ({ users, sessions, audit }: Parts): Route[] => {
  /** A user of the tenant that the administrator works in; without a tenant, any. */
  const visible = async (caller: Caller, id: string): Promise<UserRow> => {
    const user = await users.byId(id)
    if (!user || (caller.tenant !== null && user.tenant !== caller.tenant)) throw notFound('User')
    return user
  }

  return [
    route({
      method: 'GET',
      path: '/admin/users',
      access: 'admin',
      limit: 'read',
      summary: 'List users',
      query: z.object(pageQuery),
      returns: pageOf(AdminUser),
      handle: async ({ caller, query }) => {
        const page = await users.list(caller.tenant, query)
        return { ...page, items: page.items.map(toAdminUser) }
      },
    }),
    route({
      method: 'POST',
      path: '/admin/users',
      access: 'admin',
      limit: 'write',
      summary: 'Create a user',
      body: NewUser,
      returns: AdminUser,
      status: 201,
      location: ({ id }) => `/admin/users/${id}`,
      handle: ({ caller, body }) => {
        const { email, password } = body
        const tenant = body.tenant === undefined ? caller.tenant : body.tenant
        const name = body.name ?? email.trim().replace(/@.*/s, '').slice(0, MAX_NAME_LENGTH)
        const details = { email, roles: body.roles, tenant }
        return audited(audit, caller, 'users.create', details, async () => {
          if (caller.tenant !== null && tenant !== caller.tenant) throw notAuthorized('Users can be created in the own tenant only')
          return toAdminUser(await users.create({ email, name, password, roles: body.roles, tenant }))
        })
      },
    }),
    route({
      method: 'GET',
      path: '/admin/users/:id',
      access: 'admin',
      limit: 'read',
      summary: 'One user',
      params: byId,
      returns: AdminUser,
      handle: async ({ caller, params }) => toAdminUser(await visible(caller, params.id)),
    }),
    route({
      method: 'PATCH',
      path: '/admin/users/:id',
      access: 'admin',
      limit: 'write',
      summary: 'Change a user',
      description:
        'A new password ends its sessions, also the one that this request is made in, and leaves its API tokens; disabling ends the ' +
        'sessions and suspends the tokens; its channels, agents and nodes go on. The last enabled administrator cannot be disabled or lose the role.',
      params: byId,
      body: UserChanges,
      returns: AdminUser,
      handle: ({ caller, params, body }) => {
        const { password, ...details } = body
        return audited(
          audit,
          caller,
          'users.change',
          { ...details, ...(password === undefined ? {} : { password: 'changed' }) },
          async () => {
            await visible(caller, params.id)
            return toAdminUser(await users.change(params.id, body))
          },
          params.id,
        )
      },
    }),
    route({
      method: 'DELETE',
      path: '/admin/users/:id',
      access: 'admin',
      limit: 'write',
      summary: 'Remove a user',
      description:
        'Ends its sessions and API tokens at once. What it had goes in the background: channels, sessions, tasks, memory, documents, agents, ' +
        'approvals and secrets; its nodes are revoked. The last enabled administrator cannot be removed.',
      params: byId,
      handle: async ({ caller, params }) => {
        await audited(
          audit,
          caller,
          'users.remove',
          {},
          async () => {
            await visible(caller, params.id)
            await users.remove(params.id)
          },
          params.id,
        )
      },
    }),
    route({
      method: 'POST',
      path: '/admin/users/:id/logout',
      access: 'admin',
      limit: 'write',
      summary: 'End every session of a user',
      params: byId,
      returns: Ended,
      handle: ({ caller, params }) =>
        audited(
          audit,
          caller,
          'users.logout',
          {},
          async () => {
            await visible(caller, params.id)
            return { sessionsEnded: await sessions.endAll(params.id) }
          },
          params.id,
        ),
    }),
  ]
}

const roleRoutes = (): Route[] => [
  route({
    method: 'GET',
    path: '/admin/roles',
    access: 'admin',
    limit: 'read',
    summary: 'List roles and what they permit',
    query: z.object(pageQuery),
    returns: pageOf(Role),
    handle: ({ query }) => {
      const page = pageOfList(roles, ({ name }) => name, query)
      const describe = (name: keyof typeof permissions): { name: string; description: string } => ({ name, description: permissions[name] })
      return { ...page, items: page.items.map(role => ({ ...role, permissions: role.permissions.map(describe) })) }
    },
  }),
]

const tenantRoutes = ({ tenants, audit }: Parts): Route[] => [
  route({
    method: 'GET',
    path: '/admin/tenants',
    access: 'admin',
    limit: 'read',
    summary: 'List tenants',
    query: z.object(pageQuery),
    returns: pageOf(Tenant),
    handle: ({ caller, query }) => tenants.list(caller.tenant, query),
  }),
  route({
    method: 'GET',
    path: '/admin/tenants/:id',
    access: 'admin',
    limit: 'read',
    summary: 'One tenant',
    params: byId,
    returns: Tenant,
    handle: ({ caller, params }) => tenants.find(caller.tenant, params.id),
  }),
  route({
    method: 'POST',
    path: '/admin/tenants',
    access: 'gatewayAdmin',
    limit: 'write',
    summary: 'Create a tenant',
    body: NewTenant,
    returns: Tenant,
    status: 201,
    location: ({ id }) => `/admin/tenants/${id}`,
    handle: ({ caller, body }) =>
      audited(audit, caller, 'tenants.create', { slug: body.slug }, (): Promise<TenantRow> =>
        tenants.create(body.slug, body.name ?? body.slug),
      ),
  }),
]

const keyRoutes = ({ rotateSigningKey, audit }: Parts): Route[] => [
  route({
    method: 'POST',
    path: '/admin/signing-key/rotate',
    access: 'gatewayAdmin',
    limit: 'expensive',
    summary: 'Sign new session tokens with a new key',
    description: 'Tokens of the old key stay good until they expire; to end sessions at once, log their users out.',
    handle: ({ caller }) => audited(audit, caller, 'identity.rotateSigningKey', {}, rotateSigningKey),
  }),
]

const toAdminUser = (row: UserRow): z.infer<typeof AdminUser> => ({
  ...toUser(row),
  disabled: row.disabled,
  createdAt: row.createdAt,
  updatedAt: row.updatedAt,
})

/** Does the work and records it, also when it is refused. */
const audited = async <T>(
  audit: Audit,
  caller: Caller,
  action: string,
  details: Record<string, unknown>,
  work: () => T | Promise<T>,
  target?: string,
): Promise<T> => {
  try {
    const result = await work()
    const made = typeof result === 'object' && result !== null && 'id' in result && typeof result.id === 'string' ? result.id : undefined
    const on = target ?? made
    await audit.record(caller, { action, details, ...(on === undefined ? {} : { target: on }) })
    return result
  } catch (error) {
    if (error instanceof GatewayError)
      await audit.record(caller, {
        action,
        outcome: 'refused',
        details: { ...details, code: error.code },
        ...(target === undefined ? {} : { target }),
      })
    throw error
  }
}
