import { CliError } from '../project.js'

/** What `GET /plugins/{id}` says, as far as it is shown here. */
export interface PluginRecord {
  id: string
  version: string
  state: string
  reason?: string
  lastError?: string
  pid?: number
  source?: string
  warnings?: string[]
  output?: string[]
  sandbox?: { tier: string | null; enforced: string[]; open: string[] }
}

/** A line of a plugin's log. */
export interface LogLine {
  at?: string
  level?: string
  text: string
}

const REQUEST_MS = 10_000
const MAX_EVENT = 256 * 1024
/** What a gateway answers that has no such route, or no such form of it. */
const NO_SUCH_STREAM = new Set([404, 405, 406, 501])

/** The gateway answered that it is not the time. */
export class TooMany extends Error {
  readonly retryAfterMs: number

  constructor(retryAfterMs: number) {
    super('the gateway limits the rate of calls')
    this.retryAfterMs = retryAfterMs
  }
}

/** A live gateway, as an administrator sees it. The token goes nowhere but into the header. */
export class Gateway {
  readonly url: URL
  readonly #token: string

  constructor(url: string, token: string) {
    try {
      this.url = new URL(url.replace(/\/(api\/?)?$/, '/'))
    } catch {
      throw new CliError(`${url} is no address: write for example --url http://127.0.0.1:8080`)
    }
    this.#token = token
  }

  /** Fails with a text for the developer when the gateway cannot be used. */
  async plugins(): Promise<PluginRecord[]> {
    const { items } = (await this.#json('GET', 'plugins?limit=200')) as { items: PluginRecord[] }
    return items
  }

  async plugin(id: string): Promise<PluginRecord | undefined> {
    const response = await this.#fetch('GET', `plugins/${encodeURIComponent(id)}`, AbortSignal.timeout(REQUEST_MS))
    return response.status === 404 ? undefined : ((await this.#read(response)) as PluginRecord)
  }

  /** Has the gateway look at its plugin directories. Returns what it found. */
  async scan(): Promise<PluginRecord[]> {
    const { items } = (await this.#json('POST', 'plugins/scan')) as { items: PluginRecord[] }
    return items
  }

  /** The plugin's log, live, until `signal` is aborted or the gateway ends it. False when this gateway has no such stream. */
  async followLogs(id: string, signal: AbortSignal, onLine: (line: LogLine) => void): Promise<boolean> {
    const response = await this.#fetch('GET', `plugins/${encodeURIComponent(id)}/logs`, signal, 'text/event-stream')
    if (!response.ok && !NO_SUCH_STREAM.has(response.status)) await this.#read(response)
    if (!response.ok || !response.body || !(response.headers.get('content-type') ?? '').startsWith('text/event-stream')) {
      await response.body?.cancel()
      return false
    }
    for await (const data of serverSentEvents(response.body)) {
      const line = readLine(data)
      if (line) onLine(line)
    }
    return true
  }

  async #json(method: string, path: string): Promise<unknown> {
    return this.#read(await this.#fetch(method, path, AbortSignal.timeout(REQUEST_MS)))
  }

  async #fetch(method: string, path: string, signal: AbortSignal, accept = 'application/json'): Promise<Response> {
    try {
      return await fetch(new URL(`api/${path}`, this.url), {
        method,
        headers: { authorization: `Bearer ${this.#token}`, accept, ...(method === 'POST' ? { 'content-type': 'application/json' } : {}) },
        ...(method === 'POST' ? { body: '{}' } : {}),
        signal,
        redirect: 'error',
      })
    } catch (error) {
      if ((error as Error).name === 'AbortError') throw error
      const { cause, message } = error as Error
      const why =
        cause instanceof Error && cause.message !== '' ? cause.message : ((cause as { code?: string } | undefined)?.code ?? message)
      throw new CliError(`The gateway at ${this.url.origin} cannot be reached: ${why}. Is it running, and is --url right?`)
    }
  }

  async #read(response: Response): Promise<unknown> {
    const body = (await response.json().catch(() => ({}))) as { error?: { message?: string } }
    if (response.ok) return body
    const said = body.error?.message ?? ''
    if (response.status === 429) throw new TooMany(Math.max(1, Number(response.headers.get('retry-after')) || 1) * 1000)
    if (response.status === 401)
      throw new CliError(`The gateway refuses the token (${said}): set AGENT_GATEWAY_TOKEN, or name a file with --token-file`)
    if (response.status === 403)
      throw new CliError(`The token is not an administrator's (${said}): plugins are an administrator's business`)
    throw new CliError(`The gateway answered ${response.status}: ${said}`)
  }
}

/** The `data` of each event. An event of more than 256 Ki characters is left out. */
async function* serverSentEvents(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = ''
  let data: string[] = []
  for await (const chunk of body.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + chunk).split(/\r\n|\n|\r/)
    rest = (lines.pop() ?? '').slice(0, MAX_EVENT)
    for (const line of lines) {
      if (line.startsWith('data:')) data.push(line.slice(line[5] === ' ' ? 6 : 5))
      else if (line === '') {
        if (data.length > 0) yield data.join('\n')
        data = []
      }
    }
  }
}

function readLine(data: string): LogLine | undefined {
  try {
    const { at, level, text } = JSON.parse(data) as Partial<LogLine>
    if (typeof text !== 'string') return undefined
    return { text, ...(typeof at === 'string' ? { at } : {}), ...(typeof level === 'string' ? { level } : {}) }
  } catch {
    return undefined
  }
}
