import { z } from 'zod'
import { unauthenticated } from '../../../core/errors.js'
import type { Caller } from '../../../core/http/caller.js'
import { Reply, route, type Route } from '../../../core/http/route.js'
import { definePlugin, type Plugin } from '../../../core/plugin.js'

const person = (userId: string, roles: string[], permissions: string[] = [], tenant: string | null = null): Caller => ({
  kind: 'user',
  userId,
  tenant,
  roles,
  permissions,
  credential: { kind: 'session', id: userId },
})

/** Bearer tokens of the tests: the token is the person's name. */
const people: Record<string, Caller> = {
  user: person('user', ['User']),
  other: person('other', ['User'], ['ManageWorkflows'], 'acme'),
  operator: person('operator', ['Operator']),
  admin: person('admin', ['Admin']),
}

/** Knows the people above and nothing else. */
export const testIdentity: Plugin = definePlugin({
  id: 'test-identity',
  setup: ({ http }) => {
    http.authenticator('user', ({ bearer }) => {
      const known = bearer === undefined ? undefined : people[bearer]
      if (!known) throw unauthenticated()
      return known
    })
  },
})

export const routesPlugin = (...routes: Route[]): Plugin =>
  definePlugin({
    id: 'test-routes',
    setup: context => {
      context.routes(routes)
    },
  })

const Thing = z.object({ id: z.string(), name: z.string() }).meta({ id: 'Thing' })

/** Routes that show each step of a request. */
export const exampleRoutes = (): Route[] => [
  route({
    method: 'GET',
    path: '/things/:id',
    access: 'user',
    limit: 'read',
    summary: 'One',
    params: z.object({ id: z.string().regex(/^t/) }),
    returns: Thing,
    handle: ({ params }) => ({ id: params.id, name: 'a thing', hidden: 'never leaves' }),
  }),
  route({
    method: 'POST',
    path: '/things',
    access: 'user',
    limit: 'write',
    summary: 'Make one',
    body: z.object({ name: z.string().min(1), size: z.number().optional() }),
    returns: Thing,
    status: 201,
    location: ({ id }) => `/things/${id}`,
    handle: ({ body }) => ({ id: 't1', ...body }),
  }),
  route({ method: 'DELETE', path: '/things/:id', access: 'user', limit: 'write', summary: 'Remove one', handle: () => undefined }),
  route({
    method: 'GET',
    path: '/whoami',
    access: 'user',
    limit: 'read',
    summary: 'Me',
    returns: z.object({ userId: z.string(), tenant: z.string().nullable() }),
    handle: ({ caller }) => caller,
  }),
  route({ method: 'GET', path: '/for-admins', access: 'admin', limit: 'read', summary: 'A', returns: z.object({}), handle: () => ({}) }),
  route({
    method: 'GET',
    path: '/for-operators',
    access: 'operator',
    limit: 'read',
    summary: 'O',
    returns: z.object({}),
    handle: () => ({}),
  }),
  route({
    method: 'GET',
    path: '/for-permission',
    access: { permission: 'ManageWorkflows' },
    limit: 'read',
    summary: 'P',
    returns: z.object({}),
    handle: () => ({}),
  }),
  route({
    method: 'GET',
    path: '/open',
    access: 'public',
    limit: 'read',
    summary: 'Open',
    query: z.object({ n: z.coerce.number().int().min(1).default(1) }),
    returns: z.object({ n: z.number() }),
    handle: ({ query }) => query,
  }),
  route({
    method: 'GET',
    path: '/crash',
    access: 'public',
    limit: 'read',
    summary: 'Crashes',
    handle: () => {
      throw new TypeError('the database password is hunter2')
    },
  }),
  route({
    method: 'GET',
    path: '/breaks-its-schema',
    access: 'public',
    limit: 'read',
    summary: 'Breaks',
    returns: Thing,
    handle: () => ({ id: 1 }) as never,
  }),
  route({
    method: 'POST',
    path: '/raw',
    access: 'public',
    limit: 'webhook',
    summary: 'Raw',
    raw: { maxBytes: 2000 },
    produces: ['application/octet-stream'],
    handle: ({ rawBody }) => new Reply(200, rawBody, { 'Content-Type': 'application/octet-stream' }),
  }),
  route({
    method: 'POST',
    path: '/files',
    access: 'user',
    limit: 'expensive',
    summary: 'Upload',
    upload: { field: 'file', maxBytes: 100_000 },
    returns: z.object({
      files: z.array(z.object({ name: z.string(), size: z.number(), mimeType: z.string(), path: z.string() })),
      fields: z.record(z.string(), z.string()),
    }),
    handle: ({ files, fields }) => ({ files, fields }),
  }),
]
