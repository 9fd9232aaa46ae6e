import { z } from 'zod'
import { conflict, notAuthorized, unauthenticated } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import type { Audit } from '../audit/contract.js'
import { GivenEmail, GivenPassword, Name } from './accountPolicy.js'
import type { ApiTokens } from './apiTokens.js'
import { User } from './contract.js'
import type { Login } from './login.js'
import type { ApiTokenRow, SessionRow, UserRow } from './rows.js'
import { MAX_SESSIONS, type Client, type Opened, type Sessions } from './sessions.js'
import { toUser, type Users } from './users.js'

const MAX_TOKEN_DAYS = 3650

const LoginAnswer = z.object({ token: z.string(), expiresAt: z.string(), user: User }).meta({ id: 'Login' })

const Session = z
  .object({
    id: z.string(),
    current: z.boolean().meta({ description: 'The session that this request was made in' }),
    address: z.string(),
    userAgent: z.string(),
    createdAt: z.string(),
    lastUsedAt: z.string().meta({ description: 'At most a minute late' }),
    expiresAt: z.string().meta({ description: 'Ends sooner when it is not used for the idle timeout' }),
  })
  .meta({ id: 'Session' })

const ApiToken = z
  .object({
    id: z.string(),
    name: z.string(),
    permissions: z.array(z.string()).nullable().meta({ description: 'null: everything that its user may do' }),
    createdAt: z.string(),
    lastUsedAt: z.string().nullable(),
    expiresAt: z.string().nullable(),
  })
  .meta({ id: 'ApiToken' })

const CreatedApiToken = ApiToken.extend({ token: z.string().meta({ description: 'Begins with sk_; shown only this once' }) }).meta({
  id: 'CreatedApiToken',
})

const NewApiToken = z.object({
  name: Name,
  expiresInDays: z.int().min(1).max(MAX_TOKEN_DAYS).optional(),
  permissions: z.array(z.string().max(100)).max(100).optional(),
})

const byId = z.object({ id: z.string().min(1).max(200) })

interface Parts {
  users: Users
  sessions: Sessions
  tokens: ApiTokens
  login: Login
  audit: Audit
}

export const authRoutes = (parts: Parts): Route[] => [...sessionRoutes(parts), ...tokenRoutes(parts)]

const sessionRoutes = ({ users, sessions, login, audit }: Parts): Route[] => [
  route({
    method: 'POST',
    path: '/auth/login',
    access: 'public',
    limit: 'write',
    summary: 'Log in with e-mail address and password',
    description:
      'After repeated failures 429 with Retry-After, by account and by network. ' +
      `A user has at most ${MAX_SESSIONS} sessions: one more ends the oldest.`,
    body: z.object({ email: GivenEmail, password: GivenPassword }),
    returns: LoginAnswer,
    handle: async ({ body, address, headers }) => {
      const opened = await login.login(body.email, body.password, clientOf(address, headers['user-agent']))
      return toAnswer(opened, opened.user)
    },
  }),
  route({
    method: 'POST',
    path: '/auth/logout',
    access: 'user',
    limit: 'write',
    summary: 'End the current session',
    handle: async ({ caller }) => {
      const id = sessionOf(caller)
      await sessions.end(caller.userId, id)
      await audit.record(caller, { action: 'auth.logout', target: id })
    },
  }),
  route({
    method: 'POST',
    path: '/auth/refresh',
    access: 'user',
    limit: 'write',
    summary: 'Get a new token; the old one stops working',
    description: 'Of several refreshes with one token at once, one succeeds and the others are 401. A new lifetime begins.',
    returns: LoginAnswer,
    handle: async ({ caller, headers }) => {
      sessionOf(caller)
      const opened = await sessions.refresh(headers.authorization?.slice('Bearer '.length).trim() ?? '')
      return toAnswer(opened, await present(users, caller))
    },
  }),
  route({
    method: 'GET',
    path: '/auth/me',
    access: 'user',
    limit: 'read',
    summary: 'The current user',
    returns: User,
    handle: async ({ caller }) => {
      const user = toUser(await present(users, caller))
      return { ...user, roles: [...caller.roles], permissions: [...caller.permissions] }
    },
  }),
  route({
    method: 'GET',
    path: '/auth/sessions',
    access: 'user',
    limit: 'read',
    summary: 'The active sessions of the current user',
    query: z.object(pageQuery),
    returns: pageOf(Session),
    handle: async ({ caller, query }) => {
      requireWholeUser(caller)
      const page = await sessions.list(caller.userId, query)
      return { ...page, items: page.items.map(row => toSession(row, caller)) }
    },
  }),
  route({
    method: 'DELETE',
    path: '/auth/sessions/:id',
    access: 'user',
    limit: 'write',
    summary: 'End a session of the current user',
    params: byId,
    handle: async ({ caller, params }) => {
      requireWholeUser(caller)
      await sessions.end(caller.userId, params.id)
      await audit.record(caller, { action: 'auth.session.end', target: params.id })
    },
  }),
]

const tokenRoutes = ({ users, tokens, audit }: Parts): Route[] => [
  route({
    method: 'POST',
    path: '/auth/tokens',
    access: 'user',
    limit: 'write',
    summary: 'Create an API token',
    description:
      'A token with a permissions list has those at most: it carries no role, and it cannot manage tokens or sessions. ' +
      'A token made with another token cannot outlive it.',
    body: NewApiToken,
    returns: CreatedApiToken,
    status: 201,
    location: ({ id }) => `/auth/tokens/${id}`,
    handle: async ({ caller, body }) => {
      requireWholeUser(caller)
      const { row, token } = await users.createToken(
        caller.userId,
        body,
        caller.credential.kind === 'token' ? caller.credential.id : undefined,
      )
      await audit.record(caller, { action: 'auth.token.create', target: row.id, details: { name: row.name, permissions: row.permissions } })
      return { ...toApiToken(row), token }
    },
  }),
  route({
    method: 'GET',
    path: '/auth/tokens',
    access: 'user',
    limit: 'read',
    summary: 'The API tokens of the current user',
    query: z.object(pageQuery),
    returns: pageOf(ApiToken),
    handle: async ({ caller, query }) => {
      requireWholeUser(caller)
      const page = await tokens.list(caller.userId, query)
      return { ...page, items: page.items.map(toApiToken) }
    },
  }),
  route({
    method: 'GET',
    path: '/auth/tokens/:id',
    access: 'user',
    limit: 'read',
    summary: 'One API token of the current user',
    description: 'Without the token itself, which is shown at its creation only.',
    params: byId,
    returns: ApiToken,
    handle: async ({ caller, params }) => {
      requireWholeUser(caller)
      return toApiToken(await tokens.find(caller.userId, params.id))
    },
  }),
  route({
    method: 'DELETE',
    path: '/auth/tokens/:id',
    access: 'user',
    limit: 'write',
    summary: 'Delete an API token',
    params: byId,
    handle: async ({ caller, params }) => {
      // A leaked token may always be used to end itself.
      if (caller.credential.id !== params.id) requireWholeUser(caller)
      await tokens.remove(caller.userId, params.id)
      await audit.record(caller, { action: 'auth.token.delete', target: params.id })
    },
  }),
]

const clientOf = (address: string, userAgent: string | undefined): Client => ({ address, userAgent: userAgent ?? '' })

const toAnswer = ({ token, expiresAt }: Opened, user: UserRow): z.infer<typeof LoginAnswer> => ({ token, expiresAt, user: toUser(user) })

const toSession = ({ id, address, userAgent, createdAt, lastUsedAt, endsAt }: SessionRow, caller: Caller): z.infer<typeof Session> => ({
  id,
  current: caller.credential.id === id,
  address,
  userAgent,
  createdAt,
  lastUsedAt,
  expiresAt: endsAt,
})

const toApiToken = ({ id, name, permissions, createdAt, lastUsedAt, expiresAt }: ApiTokenRow): z.infer<typeof ApiToken> => ({
  id,
  name,
  permissions,
  createdAt,
  lastUsedAt,
  expiresAt: expiresAt ?? null,
})

/** The session that the request was made in. */
const sessionOf = ({ credential }: Caller): string => {
  if (credential.kind === 'session') return credential.id
  throw conflict('This request was not made in a session: only a token from a login can be refreshed or logged out')
}

/** Every user has a role, so a caller without one is a token with a permissions list. */
const requireWholeUser = ({ roles }: Caller): void => {
  if (roles.length === 0)
    throw notAuthorized('A token with a permissions list cannot manage tokens or sessions: use a login, or a token without a list')
}

/** The caller's user, unless it was removed since it was let in. */
const present = async (users: Users, { userId }: Caller): Promise<UserRow> => {
  const user = await users.byId(userId)
  if (!user) throw unauthenticated()
  return user
}
