import { createServer, request as httpRequest, type Server } from 'node:http'
import { connect, type AddressInfo, type Socket } from 'node:net'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  defineCommand,
  identityIn,
  integer,
  optional,
  pairNode,
  startNode,
  string,
  type AnyCommand,
  type NodeOptions,
  type RunningNode,
} from '../../../sdk/node/index.js'
import type { CallOptions, Answer } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

interface Reachable {
  url: string
  call(method: string, path: string, options?: CallOptions): Promise<Answer>
}

/** Intervals that a test can wait for. */
export const QUICK = {
  reconnectMs: 20,
  maxReconnectMs: 100,
  hubRetryMs: 50,
  maxHubRetryMs: 100,
  pollMs: 30,
  heartbeatMs: 200,
  checkInMs: 100,
}

/** A folder of a node; `stopAll` ends what was started and removes what was made. */
export class NodeHouse {
  readonly #directories: string[] = []
  readonly #nodes: RunningNode[] = []

  async directory(): Promise<string> {
    const directory = await mkdtemp(join(tmpdir(), 'node-test-'))
    this.#directories.push(directory)
    return directory
  }

  /** Pairs as a machine does, approved by an administrator as soon as the code is there. */
  async pair(gateway: Reachable, admin: string, nodeId: string, scopes: string[], address = gateway.url): Promise<string> {
    const directory = await this.directory()
    let code = ''
    const pairing = pairNode({
      gatewayUrl: address,
      nodeId,
      identity: identityIn(directory),
      pollIntervalMs: 20,
      onCode: shown => (code = shown),
    })
    await waitFor('the pairing code', () => code)
    const pending = (await gateway.call('GET', '/nodes/pending', { token: admin })).body.items as { id: string; pairingCode: string }[]
    if (pending.find(({ id }) => id === nodeId)?.pairingCode !== code) throw new Error(`${code} is not the code of ${nodeId}`)
    await gateway.call('POST', `/nodes/${nodeId}/approve`, { token: admin, body: { scopes } })
    await pairing
    return directory
  }

  async start(directory: string, options: Partial<NodeOptions> = {}): Promise<RunningNode> {
    const node = await startNode({
      identity: identityIn(directory),
      stateDir: directory,
      commands: [],
      scopes: ['*'],
      version: '1.0.0',
      ...options,
      timing: { ...QUICK, ...options.timing },
    })
    this.#nodes.push(node)
    return node
  }

  async stopAll(): Promise<void> {
    await Promise.all(this.#nodes.map(node => node.stop()))
    await Promise.all(this.#directories.map(directory => rm(directory, { recursive: true, force: true })))
  }
}

export const untilOnline = (node: RunningNode, transport: 'hub' | 'polling' = 'hub') =>
  waitFor(`the node to be online over ${transport}`, () => node.state.kind === 'online' && node.state.transport === transport)

/** Counts its runs, and lasts until it is let go or aborted. */
export class HeldCommand {
  readonly runs: string[] = []
  readonly aborted: string[] = []
  readonly command: AnyCommand
  #release: () => void = () => undefined
  readonly #released = new Promise<void>(resolve => (this.#release = resolve))

  constructor(name: string, options: { lane?: string; repeatable?: boolean } = {}) {
    this.command = defineCommand({
      name,
      params: { size: optional(integer({ min: 0 })), text: optional(string()) },
      ...options,
      run: async ({ text }, { commandId, signal }) => {
        this.runs.push(commandId)
        const ended = new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()))
        await Promise.race([this.#released, ended])
        if (signal.aborted) this.aborted.push(commandId)
        return { text: text ?? '', runs: this.runs.length }
      },
    })
  }

  release(): void {
    this.#release()
  }
}

export const echo = defineCommand({
  name: 'test.echo',
  params: { text: string({ maxLength: 20_000_000 }) },
  run: ({ text }) => Promise.resolve({ text }),
})

/** A proxy before the gateway, as companies have them: it can refuse WebSockets, and cut those that are open. */
export class Proxy {
  letsWebSocketsThrough = true
  upgrades = 0
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  url = ''

  constructor(target: string) {
    const { hostname, port } = new URL(target)
    this.#server = createServer((request, response) => {
      const { method, url: path, headers } = request
      const passed = httpRequest({ hostname, port, method, path, headers }, answer => {
        answer.on('error', () => response.destroy())
        response.writeHead(answer.statusCode ?? 502, answer.headers)
        answer.pipe(response)
      })
      passed.on('error', () => response.destroy())
      request.pipe(passed)
    })
    this.#server.on('upgrade', (request, socket: Socket) => {
      this.upgrades += 1
      // Also that of one who is refused: who hangs up meanwhile must not end the test.
      socket.on('error', () => socket.destroy())
      if (!this.letsWebSocketsThrough) {
        socket.end('HTTP/1.1 403 Forbidden\r\nConnection: close\r\n\r\n')
        return
      }
      const passed = connect(Number(port), hostname)
      const lines = [`${request.method} ${request.url} HTTP/1.1`]
      for (let i = 0; i < request.rawHeaders.length; i += 2) lines.push(`${request.rawHeaders[i]}: ${request.rawHeaders[i + 1]}`)
      passed.write(`${lines.join('\r\n')}\r\n\r\n`)
      passed.pipe(socket).pipe(passed)
      passed.on('error', () => passed.destroy())
      for (const one of [passed, socket]) {
        this.#sockets.add(one)
        one.on('close', () => this.#sockets.delete(one))
      }
    })
  }

  async listen(): Promise<this> {
    await new Promise<void>(resolve => this.#server.listen(0, '127.0.0.1', resolve))
    this.url = `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
    return this
  }

  cutWebSockets(): void {
    for (const socket of this.#sockets) socket.destroy()
  }

  async close(): Promise<void> {
    this.cutWebSockets()
    this.#server.closeAllConnections()
    await new Promise(resolve => this.#server.close(resolve))
  }
}
