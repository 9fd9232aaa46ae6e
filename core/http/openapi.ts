import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import { catalogue, missingPermission, notFound, payloadTooLarge, rateLimited, unauthenticated, type ErrorCode } from '../errors.js'
import type { Access, Route } from './route.js'

type Json = Record<string, unknown>

/** The interface description, OpenAPI 3.1, from the routes themselves. Tags come in the order of their descriptions, those without one last. */
export const describeApi = (routes: readonly Route[], version: string, tags: ReadonlyMap<string, string> = new Map()): Json => {
  const components = new Components()
  const paths: Record<string, Json> = {}
  for (const route of [...routes].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))) {
    const path = route.path.replaceAll(/:(\w+)/g, '{$1}')
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: describeRoute(route, components) }
  }
  return {
    openapi: '3.1.0',
    info: {
      title: 'Agent Gateway',
      version,
      summary: 'One API for agents, chat, channels, documents, plugins and nodes.',
      description: [
        'Log in with `POST /auth/login` and send the token with every call: `Authorization: Bearer <token>`. Here: *Authorize*, then paste it.',
        'Every answer carries `X-Service-Request-Id`. Errors are always `{error: {code, message, details, requestId}}`.',
        'Lists are pages: pass `nextCursor` back as `cursor` and never parse it.',
        'Any tenant-scoped resource is also reachable under `/tenants/{slug}/...`, or with the header `X-Service-Tenant`.',
      ].join('\n\n'),
      license: { name: 'Proprietary' },
    },
    servers: [{ url: '/api' }],
    tags: describeTags(routes, tags),
    paths,
    components: {
      schemas: { ...components.schemas, Error: errorSchema },
      responses: errorResponses,
      securitySchemes: {
        user: { type: 'http', scheme: 'bearer', description: 'A JWT from POST /auth/login, or an API token (`sk_...`)' },
        node: { type: 'http', scheme: 'bearer', description: 'A node token, `{nodeId}.{secret}`' },
      },
    },
  }
}

/** Named schemas, hoisted out of each converted one. */
class Components {
  readonly schemas: Record<string, Json> = {}

  /** The JSON Schema of a zod schema. A named one whose forms in and out differ (defaults, transformations) is `<name>Input` on the way in. */
  convert(schema: z.ZodType, io: 'input' | 'output'): Json {
    const { root, named } = toJsonSchema(schema, io)
    const answered = io === 'input' ? toJsonSchema(schema, 'output').named : named
    const names = new Map(Object.keys(named).map(name => [name, isDeepStrictEqual(named[name], answered[name]) ? name : `${name}Input`]))
    for (const [name, placed] of names) this.schemas[placed] = withReferences(named[name], names) as Json
    return withReferences(root, names) as Json
  }
}

/** The converted schema, with every named schema in it (its root too) apart. */
const toJsonSchema = (schema: z.ZodType, io: 'input' | 'output'): { root: Json; named: Record<string, Json> } => {
  const { $schema: _, $defs = {}, ...root } = z.toJSONSchema(schema, { io, target: 'draft-2020-12', unrepresentable: 'any' })
  const named = Object.fromEntries(Object.entries($defs).map(([name, { id: _id, ...definition }]) => [name, open(definition) as Json]))
  const { id, ...unnamed } = open(root) as Json
  if (typeof id !== 'string') return { root: unnamed, named }
  return { root: { $ref: `#/$defs/${id}` }, named: { ...named, [id]: unnamed } }
}

/** Without what says that no other field may come: clients have to accept fields that are new to them. */
const open = (node: unknown): unknown => {
  if (Array.isArray(node)) return node.map(open)
  if (typeof node !== 'object' || node === null) return node
  const entries = Object.entries(node).filter(([key, value]) => !(key === 'additionalProperties' && value === false))
  return Object.fromEntries(entries.map(([key, value]) => [key, open(value)]))
}

const withReferences = (node: unknown, names: Map<string, string>): unknown => {
  if (Array.isArray(node)) return node.map(child => withReferences(child, names))
  if (typeof node !== 'object' || node === null) return node
  return Object.fromEntries(
    Object.entries(node).map(([key, child]) => {
      if (key !== '$ref' || typeof child !== 'string') return [key, withReferences(child, names)]
      const name = child.replace(/^#\/\$defs\//, '')
      return [key, `#/components/schemas/${names.get(name) ?? name}`]
    }),
  )
}

const describeTags = (routes: readonly Route[], tags: ReadonlyMap<string, string>): Json[] => {
  const used = new Set(routes.map(({ tag }) => tag))
  const described = [...tags].filter(([name]) => used.has(name)).map(([name, description]) => ({ name, description }))
  const others = [...used].filter(name => !tags.has(name)).sort()
  return [...described, ...others.map(name => ({ name }))]
}

const errorSchema = {
  type: 'object',
  required: ['error'],
  properties: {
    error: {
      type: 'object',
      required: ['code', 'message', 'details', 'requestId'],
      properties: {
        code: { type: 'string', description: `One of ${Object.keys(catalogue).join(', ')}, or one that the operation names` },
        message: { type: 'string' },
        details: { type: 'object', additionalProperties: true },
        requestId: { type: 'string' },
      },
    },
  },
}

const describeRoute = (route: Route, components: Components): Json => ({
  operationId: operationId(route),
  tags: [route.tag],
  summary: route.summary,
  ...(route.description ? { description: route.description } : {}),
  ...security(route.access),
  'x-rate-limit': route.limit,
  parameters: [...pathParameters(route), ...queryParameters(route), ...headerParameters(route)],
  ...requestBody(route, components),
  responses: responses(route, components),
})

/** `GET /agents/{id}/soul` is `getAgentsByIdSoul`: unique because method and path are. */
const operationId = ({ method, path }: Route): string =>
  method.toLowerCase() +
  path
    .split('/')
    .filter(Boolean)
    .map(part => (part.startsWith(':') ? `By${capital(part.slice(1))}` : part.split('-').map(capital).join('')))
    .join('')

const capital = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1)

const security = (access: Access): Json => {
  if (access === 'public') return { security: [] }
  if (typeof access === 'object' && 'credential' in access) return { security: [{ [access.credential]: [] }] }
  const needs = typeof access === 'object' ? `permission ${access.permission}` : access
  return { security: [{ user: [] }], 'x-access': needs }
}

const properties = (schema: z.ZodType | undefined): { fields: Record<string, Json>; required: string[] } => {
  if (!schema) return { fields: {}, required: [] }
  const { id: _, ...plain } = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' }) as Json
  return { fields: (plain.properties ?? {}) as Record<string, Json>, required: (plain.required ?? []) as string[] }
}

const pathParameters = (route: Route): Json[] => {
  const { fields } = properties(route.params)
  return [...route.path.matchAll(/:(\w+)/g)].map(([, name = '']) => ({
    name,
    in: 'path',
    required: true,
    schema: fields[name] ?? { type: 'string' },
  }))
}

const queryParameters = (route: Route): Json[] => {
  const { fields, required } = properties(route.query)
  return Object.entries(fields).map(([name, schema]) => ({
    name,
    in: 'query',
    required: required.includes(name),
    ...(typeof schema.description === 'string' ? { description: schema.description } : {}),
    schema,
  }))
}

const headerParameters = ({ requestHeaders = {} }: Route): Json[] =>
  Object.entries(requestHeaders).map(([name, description]) => ({
    name,
    in: 'header',
    required: false,
    description,
    schema: { type: 'string' },
  }))

const requestBody = (route: Route, components: Components): Json => {
  if (route.body)
    return {
      requestBody: {
        required: !route.body.safeParse(undefined).success,
        content: { 'application/json': { schema: components.convert(route.body, 'input') } },
      },
    }
  if (route.raw) return { requestBody: { content: { '*/*': { schema: {} } } } }
  if (!route.upload) return {}
  const field = route.upload.field ?? 'file'
  return {
    requestBody: {
      required: true,
      content: {
        'multipart/form-data': {
          schema: {
            type: 'object',
            required: [field],
            properties: { [field]: { type: 'string', contentMediaType: 'application/octet-stream' } },
          },
        },
      },
    },
  }
}

const requestIdHeader = { 'X-Service-Request-Id': { description: 'To be quoted in support tickets', schema: { type: 'string' } } }

const contentOf = ({ produces = [], returns }: Route, components: Components): Json => ({
  ...Object.fromEntries(produces.map(type => [type, { schema: type.startsWith('text/') ? { type: 'string' } : {} }])),
  ...(returns ? { 'application/json': { schema: components.convert(returns, 'output') } } : {}),
})

const responses = (route: Route, components: Components): Json => {
  const content = route.returns || route.produces ? { content: contentOf(route, components) } : {}
  const location = route.location ? { Location: { description: 'The new record', schema: { type: 'string' } } } : {}
  const success = { description: DESCRIPTIONS[route.status] ?? 'Done', headers: { ...requestIdHeader, ...location }, ...content }
  const others = Object.entries(route.otherStatuses ?? {}).map(([status, description]) => [status, { ...success, description }] as const)
  return {
    [route.status]: success,
    ...Object.fromEntries(others),
    ...Object.fromEntries(errorStatuses(route).map(status => [status, { $ref: `#/components/responses/Error${status}` }])),
    default: { $ref: '#/components/responses/Error' },
  }
}

const DESCRIPTIONS: Record<number, string> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted: the work goes on in the background',
  204: 'Done, nothing to return',
}

/** What each status of an error says, with an example: one component each, shared by every operation. */
const ERRORS: Record<string, { code: ErrorCode; means: string; message: string; details?: Json }> = {
  400: {
    code: 'invalid_request',
    means: 'The body is no JSON, or a parameter is malformed',
    message: 'limit: Invalid input: expected number',
  },
  401: { code: 'unauthenticated', means: 'The token is missing or no longer good', message: unauthenticated().message },
  403: {
    code: 'not_authorized',
    means: 'The caller may not do this, or not in this tenant',
    message: missingPermission('ManagePlugins').message,
    details: { permission: 'ManagePlugins' },
  },
  404: { code: 'not_found', means: 'It does not exist, or the caller may not see it', message: notFound('Agent').message },
  413: {
    code: 'payload_too_large',
    means: 'The body is larger than the limit',
    message: payloadTooLarge('The request body', 1024 ** 2).message,
  },
  415: { code: 'invalid_request', means: 'The body has another content type', message: 'The content type text/plain cannot be used here' },
  422: {
    code: 'validation_failed',
    means: 'The body breaks its schema, or a rule; every issue is named',
    message: 'name: expected a string',
    details: { issues: [{ path: 'name', message: 'expected a string' }] },
  },
  429: {
    code: 'rate_limited',
    means: 'Too many calls: `Retry-After` says in how many seconds to try again',
    message: rateLimited(12).message,
  },
  500: {
    code: 'internal_error',
    means: 'A fault of the gateway, which is in its log with the request id',
    message: 'Something went wrong here',
  },
}
const EXAMPLE_ID = '5f0c1c36-7d0e-4c8e-9f2b-0f6f4b3a9e11'

const errorResponse = (description: string, example?: Json): Json => ({
  description,
  content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' }, ...(example ? { example } : {}) } },
})

const errorResponses: Json = {
  ...Object.fromEntries(
    Object.entries(ERRORS).map(([status, { code, means, message, details = {} }]) => [
      `Error${status}`,
      errorResponse(means, { error: { code, message, details, requestId: EXAMPLE_ID } }),
    ]),
  ),
  Error: errorResponse('Any other error: 405 with `Allow`, 409 conflict, 502 and 503 for what is out of reach or busy'),
}

const errorStatuses = (route: Route): string[] => [
  '400',
  ...(route.access === 'public' ? [] : ['401', '403']),
  ...(route.path.includes(':') ? ['404'] : []),
  ...(route.body || route.raw || route.upload ? ['413', '415'] : []),
  ...(route.body || route.upload ? ['422'] : []),
  ...(route.limit === 'none' ? [] : ['429']),
  '500',
]
