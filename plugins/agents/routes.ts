import { z } from 'zod'
import { pageOf, pageQuery } from '../../core/http/page.js'
import { route, type Route } from '../../core/http/route.js'
import { toolPattern } from '../tools/contract.js'
import { Agent } from './contract.js'
import type { AgentService, AgentText } from './service.js'

/** The longest SOUL.md, BOOT.md or HEARTBEAT.md, in characters. */
const MAX_TEXT_LENGTH = 65_536
const MAX_TOOLS = 200

const Params = z.object({ id: z.string() })

const description = z.string().max(1_000)
const model = z
  .string()
  .max(200)
  .regex(/^[^/\s]+(\/\S+)?$/, 'must be provider/model, or the name of a provider')
  .meta({ examples: ['local/llama3'] })
const instructions = z.string().max(20_000)
const name = z.string().trim().min(1).max(100)

const NewAgent = z.object({ name, description: description.optional(), model: model.optional(), instructions: instructions.optional() })

const AgentPatch = z.object({
  name: name.optional(),
  description: description.nullish().meta({ description: 'null removes it' }),
  model: model.nullish().meta({ description: "null: the gateway's default" }),
  instructions: instructions.nullish().meta({ description: 'null removes it' }),
})

const Content = z.object({ content: z.string().max(MAX_TEXT_LENGTH) }).meta({ id: 'AgentText' })
const ToolList = z
  .object({ tools: z.array(z.string().max(200).regex(toolPattern, 'must be family.verb, family.* or *')).max(MAX_TOOLS) })
  .meta({ id: 'AgentTools' })

/** The REST face of agents. */
export const agentRoutes = (service: AgentService): Route[] => [
  ...recordRoutes(service),
  ...texts.flatMap(text => textRoutes(service, text)),
  ...toolRoutes(service),
]

const recordRoutes = (service: AgentService): Route[] => [
  route({
    method: 'GET',
    path: '/agents',
    access: 'user',
    limit: 'read',
    summary: 'List your agents, newest first',
    query: z.object(pageQuery),
    returns: pageOf(Agent),
    handle: ({ caller, query }) => service.list(caller, query),
  }),
  route({
    method: 'POST',
    path: '/agents',
    access: 'user',
    limit: 'write',
    summary: 'Create an agent',
    description:
      'A new agent may use the tools `memory.*`, `documents.*` and `time.*`; allow others with PUT /agents/{id}/tools. A model need not be configured yet: it is looked up when a message is sent.',
    body: NewAgent,
    returns: Agent,
    status: 201,
    location: ({ id }) => `/agents/${id}`,
    handle: ({ caller, body }) => service.create(caller, body),
  }),
  route({
    method: 'GET',
    path: '/agents/:id',
    access: 'user',
    limit: 'read',
    summary: 'Read an agent',
    params: Params,
    returns: Agent,
    handle: ({ caller, params }) => service.get(caller, params.id),
  }),
  route({
    method: 'PATCH',
    path: '/agents/:id',
    access: 'user',
    limit: 'write',
    summary: 'Change an agent',
    params: Params,
    body: AgentPatch,
    returns: Agent,
    handle: ({ caller, params, body }) => service.update(caller, params.id, body),
  }),
  route({
    method: 'DELETE',
    path: '/agents/:id',
    access: 'user',
    limit: 'write',
    summary: 'Delete an agent',
    description: 'Its sessions stay readable; to go on with one, send a message that names another agent.',
    params: Params,
    handle: ({ caller, params }) => service.remove(caller, params.id),
  }),
]

const texts: { text: AgentText; file: string; use: string }[] = [
  { text: 'soul', file: 'SOUL.md', use: 'Who the agent is: the beginning of every system prompt.' },
  { text: 'boot', file: 'BOOT.md', use: 'What the agent is told once, with the first message of a session.' },
  { text: 'heartbeat', file: 'HEARTBEAT.md', use: 'What the agent does when it is woken on a schedule.' },
]

const textRoutes = (service: AgentService, { text, file, use }: (typeof texts)[number]): Route[] => [
  route({
    method: 'GET',
    path: `/agents/:id/${text}`,
    access: 'user',
    limit: 'read',
    summary: `Read an agent's ${file}`,
    description: use,
    params: Params,
    returns: Content,
    handle: async ({ caller, params }) => ({ content: (await service.get(caller, params.id))[text] }),
  }),
  route({
    method: 'PUT',
    path: `/agents/:id/${text}`,
    access: 'user',
    limit: 'write',
    summary: `Replace an agent's ${file}`,
    description: use,
    params: Params,
    body: Content,
    returns: Content,
    handle: async ({ caller, params, body }) => ({ content: (await service.writeText(caller, params.id, text, body.content))[text] }),
  }),
]

const toolRoutes = (service: AgentService): Route[] => [
  route({
    method: 'GET',
    path: '/agents/:id/tools',
    access: 'user',
    limit: 'read',
    summary: "Read an agent's tool allow-list",
    params: Params,
    returns: ToolList,
    handle: async ({ caller, params }) => ({ tools: (await service.get(caller, params.id)).tools }),
  }),
  route({
    method: 'PUT',
    path: '/agents/:id/tools',
    access: 'user',
    limit: 'write',
    summary: "Replace an agent's tool allow-list",
    description:
      'Names of tools (GET /tools), `family.*`, or `*` for every tool. The commands of your nodes are `nodes.<node>.<command>`, for example `nodes.desk.screen.capture`, `nodes.desk.*` or `nodes.*`. A name that no tool has is accepted: plugins and nodes come and go, and it counts once the tool is there.',
    params: Params,
    body: ToolList,
    returns: ToolList,
    handle: async ({ caller, params, body }) => ({ tools: (await service.writeTools(caller, params.id, body.tools)).tools }),
  }),
]
