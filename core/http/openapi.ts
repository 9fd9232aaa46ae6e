import { z } from 'zod'
import { catalogue } from '../errors.js'
import type { Access, Route } from './route.js'

type Json = Record<string, unknown>

/** The interface description, OpenAPI 3.1, from the routes themselves. */
export const describeApi = (routes: readonly Route[], version: string): Json => {
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
        'Every answer carries `X-Service-Request-Id`. Errors are always `{error: {code, message, details, requestId}}`.',
        'Lists are pages: pass `nextCursor` back as `cursor` and never parse it.',
        'Any tenant-scoped resource is also reachable under `/tenants/{slug}/...`, or with the header `X-Service-Tenant`.',
      ].join('\n\n'),
      license: { name: 'Proprietary', identifier: 'LicenseRef-Proprietary' },
    },
    servers: [{ url: '/api' }],
    tags: [...new Set(routes.map(({ tag }) => tag))].sort().map((name) => ({ name })),
    paths,
    components: {
      schemas: { ...components.schemas, Error: errorSchema },
      responses: {
        Error: {
          description: 'An error, with its code and the request id',
          content: { 'application/json': { schema: { $ref: '#/components/schemas/Error' } } },
        },
      },
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

  /** The JSON Schema of a zod schema. The forms in and out differ (defaults, transformations): each gets its own name. */
  convert(schema: z.ZodType, io: 'input' | 'output'): Json {
    const {
      $schema: _,
      $defs = {},
      ...root
    } = z.toJSONSchema(schema, { io, target: 'draft-2020-12', unrepresentable: 'any' }) as Json & { $defs?: Record<string, Json> }
    const names = new Map(Object.keys($defs).map((name) => [name, this.#place(name, $defs[name] ?? {}, io)]))
    for (const [name, placed] of names) this.schemas[placed] = this.#rewrite($defs[name] ?? {}, names)
    const id = (root as { id?: string }).id
    if (id === undefined) return this.#rewrite(root, names)
    const placed = this.#place(id, root, io)
    this.schemas[placed] = this.#rewrite(root, new Map([...names, [id, placed]]))
    return { $ref: `#/components/schemas/${placed}` }
  }

  #place(name: string, schema: Json, io: 'input' | 'output'): string {
    const existing = this.schemas[name]
    if (!existing || io === 'output') return name
    return sameShape(existing, schema) ? name : `${name}Input`
  }

  #rewrite(value: Json, names: Map<string, string>): Json {
    const walk = (node: unknown): unknown => {
      if (Array.isArray(node)) return node.map(walk)
      if (typeof node !== 'object' || node === null) return node
      return Object.fromEntries(
        Object.entries(node)
          .filter(([key]) => key !== 'id' || typeof (node as Json).id !== 'string' || !names.has((node as Json).id as string))
          .map(([key, child]) => {
            if (key !== '$ref' || typeof child !== 'string') return [key, walk(child)]
            const name = child.replace(/^#\/\$defs\//, '')
            return [key, `#/components/schemas/${names.get(name) ?? name}`]
          }),
      )
    }
    return walk(value) as Json
  }
}

const sameShape = (a: Json, b: Json): boolean => Object.keys(a.properties ?? {}).join() === Object.keys(b.properties ?? {}).join()

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
  parameters: [...pathParameters(route), ...queryParameters(route)],
  ...requestBody(route, components),
  responses: responses(route, components),
})

/** `GET /agents/{id}/soul` is `getAgentsByIdSoul`: unique because method and path are. */
const operationId = ({ method, path }: Route): string =>
  method.toLowerCase() +
  path
    .split('/')
    .filter(Boolean)
    .map((part) => (part.startsWith(':') ? `By${capital(part.slice(1))}` : part.split('-').map(capital).join('')))
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

const responses = (route: Route, components: Components): Json => {
  const content = route.returns
    ? { content: { 'application/json': { schema: components.convert(route.returns, 'output') } } }
    : route.produces
      ? {
          content: Object.fromEntries(route.produces.map((type) => [type, { schema: type.startsWith('text/') ? { type: 'string' } : {} }])),
        }
      : {}
  const location = route.location ? { Location: { description: 'The new record', schema: { type: 'string' } } } : {}
  const success = { description: DESCRIPTIONS[route.status] ?? 'Done', headers: { ...requestIdHeader, ...location }, ...content }
  return {
    [route.status]: success,
    ...Object.fromEntries(errorStatuses(route).map((status) => [status, { $ref: '#/components/responses/Error' }])),
  }
}

const DESCRIPTIONS: Record<number, string> = {
  200: 'Done',
  201: 'Created',
  202: 'Accepted: the work goes on in the background',
  204: 'Done, nothing to return',
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
