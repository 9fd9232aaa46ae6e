import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ChatRequest {
  model: string
  messages: { role: string; content: string; tool_calls?: { function: { name: string; arguments: string } }[] }[]
  tools?: { function: { name: string; parameters: Record<string, unknown> } }[]
  tool_choice?: string
  headers: IncomingMessage['headers']
}

type Responder = (request: ChatRequest, response: ServerResponse) => void | Promise<void>

/** A model endpoint on loopback that speaks the OpenAI chat completions API; its answers are the test's. */
export class Endpoint {
  readonly requests: ChatRequest[] = []
  /** Requests whose client went away before the answer. */
  abandoned = 0
  respond: Responder = (request, response) => say(response, `You said: ${request.messages.at(-1)?.content ?? ''}`)
  readonly #server: Server

  private constructor() {
    this.#server = createServer((request, response) => void this.#handle(request, response))
  }

  static async start(): Promise<Endpoint> {
    const endpoint = new Endpoint()
    await new Promise<void>(resolve => endpoint.#server.listen(0, '127.0.0.1', resolve))
    return endpoint
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/v1`
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }

  async #handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const asked = { ...(JSON.parse(Buffer.concat(chunks).toString()) as ChatRequest), headers: request.headers }
    this.requests.push(asked)
    response.on('close', () => {
      if (!response.writableFinished) this.abandoned += 1
    })
    await this.respond(asked, response)
  }
}

const send = (response: ServerResponse, message: Record<string, unknown>, finish: string): void => {
  response.setHeader('Content-Type', 'application/json')
  response.end(
    JSON.stringify({
      id: 'x',
      object: 'chat.completion',
      created: 1,
      model: 'm',
      choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }],
      usage: { prompt_tokens: 3, completion_tokens: 4, total_tokens: 7 },
    }),
  )
}

export const say = (response: ServerResponse, content: string): void => send(response, { content }, 'stop')

export const callTool = (response: ServerResponse, name: string, parameters: unknown): void =>
  send(
    response,
    { content: null, tool_calls: [{ id: `call_${name}`, type: 'function', function: { name, arguments: JSON.stringify(parameters) } }] },
    'tool_calls',
  )

export const refuse = (response: ServerResponse, status: number, message: string): void => {
  response.writeHead(status, { 'Content-Type': 'application/json', 'retry-after-ms': '1' })
  response.end(JSON.stringify({ error: { message, type: 'error', code: null } }))
}

/** The configuration of an endpoint as the provider `test`. */
export const providerSettings = (endpoint: Endpoint, more: Record<string, string> = {}): Record<string, string> =>
  Object.fromEntries(
    Object.entries({ BaseUrl: endpoint.url, ApiKey: 'sk-very-secret-key', Model: 'small', Retries: '0', ...more }).map(([name, value]) => [
      `Service:Models:Providers:test:${name}`,
      value,
    ]),
  )
