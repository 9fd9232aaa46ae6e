import { z } from 'zod'
import { pageOf, pageOfList, pageQuery } from '../../core/http/page.js'
import { Reply, route, type Route } from '../../core/http/route.js'
import { Channel, ChannelDetail, ChannelType } from './contract.js'
import type { ChannelService } from './service.js'
import { MAX_SETTINGS, MAX_VALUE_LENGTH } from './settings.js'
import { toWire, type ChannelTypes } from './types.js'

const params = z.object({ id: z.string() })
const Name = z.string().trim().min(1).max(200)
const Settings = z
  .record(z.string().max(200), z.string().max(MAX_VALUE_LENGTH).nullable())
  .refine(settings => Object.keys(settings).length <= MAX_SETTINGS, `at most ${MAX_SETTINGS} settings`)
  .describe('By name, as the type declares them. `null` or blank removes one; the mask `********` keeps what is stored.')
const AgentId = z.string().max(100).nullable().describe('Who answers; `null`: your default agent')

const NewChannel = z
  .object({
    type: z.string().trim().toLowerCase().max(100),
    name: Name,
    settings: Settings.default({}),
    agentId: AgentId.optional(),
    enabled: z.boolean().optional(),
  })
  .meta({ id: 'NewChannel' })

const ChannelChanges = z
  .object({ name: Name.optional(), settings: Settings.optional(), agentId: AgentId.optional(), enabled: z.boolean().optional() })
  .meta({ id: 'ChannelChanges' })

const TestResult = z.object({ ok: z.boolean(), message: z.string().optional() }).meta({ id: 'ChannelTestResult' })

export const channelRoutes = (service: ChannelService, types: ChannelTypes): Route[] => [
  route({
    method: 'GET',
    path: '/channels/types',
    access: 'user',
    limit: 'read',
    summary: 'List the types of channel that can be added, with their settings forms',
    description: 'Also those whose plugin is stopped or gone: such channels connect when it is back.',
    query: z.object(pageQuery),
    returns: pageOf(ChannelType),
    handle: ({ query }) => pageOfList(types.list().map(toWire), ({ type }) => type, query),
  }),
  route({
    method: 'GET',
    path: '/channels',
    access: 'user',
    limit: 'read',
    summary: 'List your channels',
    query: z.object(pageQuery),
    returns: pageOf(Channel),
    handle: ({ caller, query }) => service.list(caller, query),
  }),
  route({
    method: 'POST',
    path: '/channels',
    access: 'user',
    limit: 'write',
    summary: 'Add a channel',
    description:
      'It connects in the background: its `status` says how that goes. A missing or blank required setting is 422, and nothing is stored.',
    body: NewChannel,
    returns: Channel,
    status: 201,
    location: ({ id }) => `/channels/${id}`,
    handle: ({ caller, body }) => service.create(caller, body),
  }),
  route({
    method: 'GET',
    path: '/channels/:id',
    access: 'user',
    limit: 'read',
    summary: 'Get a channel, with what waits in its queues',
    description:
      'Dead letters are deliveries that were given up: refused for good, tried too often (in about ten minutes inbound, five hours outbound), ' +
      'or the cause of three deaths of the plugin. An inbox holds 1000 deliveries or 16 MiB, and answers 503 beyond it; an outbox holds ' +
      '10,000 replies or 64 MiB, and what is beyond it is a dead letter at once. Dead letters are kept for 30 days, the newest 100 of each direction.',
    params,
    returns: ChannelDetail,
    handle: ({ caller, params: { id } }) => service.get(caller, id),
  }),
  route({
    method: 'PATCH',
    path: '/channels/:id',
    access: 'user',
    limit: 'write',
    summary: 'Change a channel',
    description:
      'Settings are merged into those stored; the channel connects anew when settings or `enabled` change. The type stays: add another channel for another type.',
    params,
    body: ChannelChanges,
    returns: Channel,
    handle: ({ caller, params: { id }, body }) => service.update(caller, id, body),
  }),
  route({
    method: 'DELETE',
    path: '/channels/:id',
    access: 'user',
    limit: 'write',
    summary: 'Delete a channel, with its secrets and everything that waits for it',
    description: 'Its webhook URL is 404 from then on; what comes in meanwhile is dropped with it.',
    params,
    handle: async ({ caller, params: { id } }) => {
      await service.remove(caller, id)
      return new Reply(204, null)
    },
  }),
  route({
    method: 'POST',
    path: '/channels/:id/test',
    access: 'user',
    limit: 'write',
    summary: "Try a channel's settings with its platform",
    description: '`ok: false` says what is wrong. An adapter that fails at it, or takes longer than 30 s, is 502.',
    params,
    returns: TestResult,
    handle: ({ caller, params: { id } }) => service.test(caller, id),
  }),
]
