import { z } from 'zod'
import { ADMIN_ROLE, type Caller } from '../../core/http/caller.js'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import type { Chat } from './contract.js'
import { messageIdOf, type TaskRow } from './records.js'
import { Accepted, Message, SendMessage, Session, statusOf, Task } from './schemas.js'
import type { Sessions } from './sessions.js'
import type { Tasks } from './tasks.js'

const Params = z.object({ id: z.string() })

/** Only the fields that were sent. */
const sent = <T extends object>(body: T) =>
  Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as { [K in keyof T]: Exclude<T[K], undefined> }

/** A token that may do less than its user gets no more out of an agent. */
const narrowedBy = ({ credential, roles, permissions }: Caller): { permissions?: readonly string[] } =>
  credential.kind === 'token' && !roles.includes(ADMIN_ROLE) ? { permissions } : {}

export const chatRoutes = (chat: Chat): Route[] => [
  route({
    method: 'POST',
    path: '/chat',
    access: 'user',
    limit: 'chat',
    summary: 'Send a message to an agent',
    description:
      'Returns once the message is stored; the answer is made in the background. Poll GET /tasks/{taskId} for its status, then read it in GET /sessions/{sessionId}/messages. Messages of one session are answered one at a time, in order.',
    body: SendMessage,
    returns: Accepted,
    status: 202,
    handle: ({ caller, body }) => chat.send(caller, { ...sent(body), ...narrowedBy(caller) }),
  }),
]

export const sessionRoutes = (sessions: Sessions): Route[] => [
  route({
    method: 'GET',
    path: '/sessions',
    access: 'user',
    limit: 'read',
    summary: 'List your sessions, the last used first',
    query: z.object({ ...pageQuery, agentId: z.string().optional() }),
    returns: pageOf(Session),
    handle: ({ caller, query: { agentId, ...page } }) => sessions.list(caller, agentId, page),
  }),
  route({
    method: 'GET',
    path: '/sessions/:id',
    access: 'user',
    limit: 'read',
    summary: 'Read a session',
    params: Params,
    returns: Session,
    handle: ({ caller, params }) => sessions.get(caller, params.id),
  }),
  route({
    method: 'GET',
    path: '/sessions/:id/messages',
    access: 'user',
    limit: 'read',
    summary: "List a session's messages, oldest first",
    params: Params,
    query: z.object({
      ...pageQuery,
      order: z.enum(['asc', 'desc']).default('asc').meta({ description: 'asc: oldest first; desc: newest first' }),
    }),
    returns: pageOf(Message),
    handle: ({ caller, params, query: { order, ...page } }) => sessions.messages(caller, params.id, order, page),
  }),
  route({
    method: 'POST',
    path: '/sessions/:id/fork',
    access: 'user',
    limit: 'write',
    summary: 'Begin a new session with the messages of this one',
    description: 'Up to and with messageId, or all; the newest 2,000 at most.',
    params: Params,
    body: z.object({ messageId: z.string().min(1).max(100).optional() }).optional(),
    returns: Session,
    status: 201,
    location: ({ id }) => `/sessions/${id}`,
    handle: ({ caller, params, body }) => sessions.fork(caller, params.id, body?.messageId),
  }),
  route({
    method: 'DELETE',
    path: '/sessions/:id',
    access: 'user',
    limit: 'write',
    summary: 'Delete a session with its messages',
    description: 'Its unfinished tasks are cancelled.',
    params: Params,
    handle: ({ caller, params }) => sessions.remove(caller, params.id),
  }),
]

export const taskRoutes = (tasks: Tasks): Route[] => [
  route({
    method: 'GET',
    path: '/tasks/active',
    access: 'user',
    limit: 'read',
    summary: 'List your tasks that wait or run, newest first',
    query: z.object(pageQuery),
    returns: pageOf(Task),
    handle: async ({ caller, query }) => shown(await tasks.active(caller, query)),
  }),
  route({
    method: 'GET',
    path: '/tasks/history',
    access: 'user',
    limit: 'read',
    summary: 'List your finished tasks, newest first',
    query: z.object({ ...pageQuery, status: z.enum(['succeeded', 'failed', 'cancelled']).optional() }),
    returns: pageOf(Task),
    handle: async ({ caller, query: { status, ...page } }) => shown(await tasks.history(caller, status, page)),
  }),
  route({
    method: 'GET',
    path: '/tasks/:id',
    access: 'user',
    limit: 'read',
    summary: 'Read a task',
    params: Params,
    returns: Task,
    handle: async ({ caller, params }) => show(await tasks.get(caller, params.id)),
  }),
  route({
    method: 'POST',
    path: '/tasks/:id/cancel',
    access: 'user',
    limit: 'decision',
    summary: 'Cancel a task that waits or runs',
    description: '409 when it has succeeded or failed already.',
    params: Params,
    returns: Task,
    handle: async ({ caller, params }) => show(await tasks.cancel(caller, params.id)),
  }),
]

const show = (task: TaskRow): z.input<typeof Task> => ({ ...task, status: statusOf(task), messageId: messageIdOf(task.id, 0) })

const shown = <T extends { items: TaskRow[] }>(page: T) => ({ ...page, items: page.items.map(show) })
