import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createApp, type App } from '../../core/app.js'
import { Config } from '../../core/config.js'
import { createLog } from '../../core/log.js'
import type { Plugin, ServiceRef } from '../../core/plugin.js'
import { areas, plugins as allPlugins } from '../../plugins/index.js'
import { steadyPort } from './steadyPort.js'

export interface TestGateway {
  url: string
  dataDir: string
  app: App
  /** Everything logged so far, a JSON document a line. */
  logged(): string
  service<T>(ref: ServiceRef<T>): T
  /** Calls `/api` + path; the body is sent as JSON unless it is a FormData, string or Buffer. */
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
  /** Stops the gateway and, unless `keep`, removes its data. */
  stop(options?: { keep?: boolean }): Promise<void>
}

export interface CallOptions {
  token?: string
  body?: unknown
  headers?: Record<string, string>
}

export interface Answer {
  status: number
  headers: Headers
  text: string
  /** The parsed JSON; `undefined` for an empty or other body. */
  // eslint-disable-next-line @typescript-eslint/no-explicit-any -- tests reach into answers of every shape
  body: any
}

export interface GatewayOptions {
  /** Default: every plugin of the gateway. */
  plugins?: readonly Plugin[]
  /** Configuration keys to text, as the environment would give them. Rate limits are off unless named. */
  settings?: Record<string, string>
  dataDir?: string
  /** Layers of the environment, for tests of pinned keys. */
  env?: Record<string, string>
}

/** Settings that switch every rate limit off. */
export const unlimited = Object.fromEntries(
  ['Read', 'Write', 'Decision', 'Expensive', 'Chat', 'Webhook', 'Node'].map(name => [`Service:RateLimits:${name}`, '0']),
)

export const ADMIN = { email: 'admin@localhost', password: 'correct horse battery' }

/** Starts a gateway in this process, on a free port, over a data directory of its own. */
export const startGateway = async ({
  plugins = allPlugins,
  settings = {},
  dataDir,
  env = {},
}: GatewayOptions = {}): Promise<TestGateway> => {
  const directory = dataDir ?? (await mkdtemp(join(tmpdir(), 'gateway-test-')))
  const lines: string[] = []
  const log = createLog({ level: 'debug', write: line => lines.push(line) })
  const defaults = {
    'Service:DataDir': directory,
    // Free also when it is started again at the same one.
    'Service:Port': String(await steadyPort()),
    'Service:Admin:Email': ADMIN.email,
    'Service:Admin:Password': ADMIN.password,
    'Service:Http:DrainSeconds': '1',
    ...unlimited,
    ...settings,
  }
  const app = createApp(plugins, { config: new Config({ file: join(directory, 'service.json'), defaults, env }), log, areas })
  const { url } = await app.start()
  return {
    url,
    dataDir: directory,
    app,
    logged: () => lines.join(''),
    service: ref => app.service(ref),
    call: (method, path, options) => call(url, method, path, options),
    stop: async ({ keep = false } = {}) => {
      await app.stop()
      if (!keep) await rm(directory, { recursive: true, force: true })
    },
  }
}

/** Logs in and returns the token; by default as the first administrator. */
export const login = async (gateway: Pick<TestGateway, 'call'>, credentials = ADMIN): Promise<string> => {
  const answer = await gateway.call('POST', '/auth/login', { body: credentials })
  if (answer.status !== 200) throw new Error(`login failed: ${String(answer.status)} ${answer.text}`)
  return (answer.body as { token: string }).token
}

export const call = async (url: string, method: string, path: string, { token, body, headers = {} }: CallOptions = {}): Promise<Answer> => {
  const raw = typeof body === 'string' || body instanceof FormData || Buffer.isBuffer(body)
  const response = await fetch(`${url}/api${path}`, {
    method,
    headers: {
      // One that is kept could be closed by the gateway at the moment it is used again, after the process was busy for long.
      Connection: 'close',
      ...(token === undefined ? {} : { Authorization: `Bearer ${token}` }),
      ...(body === undefined || raw ? {} : { 'Content-Type': 'application/json' }),
      ...headers,
    },
    ...(body === undefined ? {} : { body: raw ? (body as NonNullable<RequestInit['body']>) : JSON.stringify(body) }),
  })
  const text = await response.text()
  return { status: response.status, headers: response.headers, text, body: parse(text) }
}

const parse = (text: string): unknown => {
  try {
    return JSON.parse(text) as unknown
  } catch {
    return undefined
  }
}
