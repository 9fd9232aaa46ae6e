import { STATUS_CODES, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'

/** A protocol of its own at a path of the gateway's server and below, outside `/api`. It sees requests as they came. */
export interface Endpoint {
  /** A plain request. Answers it, also when it fails. */
  request(request: IncomingMessage, response: ServerResponse): void
  /** A request to change the protocol of its connection. The socket is the endpoint's from here on. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** The gateway stops: end the connections. What is left after the drain time is cut. Called once, or never. */
  close(): void | Promise<void>
}

/** The endpoints of one server, by path, and the connections that they took over. */
export class Endpoints {
  readonly #endpoints = new Map<string, Endpoint>()
  readonly #sockets = new Set<Duplex>()

  /** Throws when the path is malformed, the API's, or taken. Returns the undo. */
  add(path: string, endpoint: Endpoint): () => void {
    if (!/^(\/[a-z0-9-]+)+$/.test(path) || /^\/(api|openapi)(\/|$)/.test(path))
      throw new Error(`An endpoint cannot be attached at "${path}": write a path such as /hubs/node, outside of /api and /openapi`)
    if (this.#endpoints.has(path)) throw new Error(`Two plugins attach an endpoint at "${path}"`)
    this.#endpoints.set(path, endpoint)
    return () => {
      this.#endpoints.delete(path)
    }
  }

  get isEmpty(): boolean {
    return this.#endpoints.size === 0
  }

  /** The endpoint that a URL belongs to: at its path, or below it. */
  find(url: string | undefined): Endpoint | undefined {
    const path = (url ?? '/').split('?', 1)[0] ?? '/'
    for (const [prefix, endpoint] of this.#endpoints)
      if (path.startsWith(prefix) && (path.length === prefix.length || path[prefix.length] === '/')) return endpoint
    return undefined
  }

  /** For the server's `upgrade` event. */
  upgrade(server: Server, request: IncomingMessage, socket: Duplex, head: Buffer): void {
    // Without a listener a connection that breaks in the middle would end the process.
    socket.on('error', () => socket.destroy())
    const endpoint = this.find(request.url)
    if (!endpoint) {
      ignoreUpgrade(server, request, socket, head)
      return
    }
    this.#sockets.add(socket)
    socket.once('close', () => this.#sockets.delete(socket))
    endpoint.upgrade(request, socket, head)
  }

  async close(): Promise<void> {
    await Promise.all([...this.#endpoints.values()].map(async endpoint => endpoint.close()))
  }

  /** Ends every connection that is left. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}

/** Header fields that ask for another protocol. */
const UPGRADING = new Set(['upgrade', 'connection', 'http2-settings'])

/**
 * A server may ignore a wish to upgrade: some HTTP clients send `Upgrade: h2c` with ordinary requests. The parser has
 * let go of the connection by now, so it gets the request once more, without the wish, and as the connection's last.
 */
const ignoreUpgrade = (server: Server, request: IncomingMessage, socket: Duplex, head: Buffer): void => {
  const lines = [`${request.method ?? 'GET'} ${request.url ?? '/'} HTTP/1.1`]
  for (let i = 0; i < request.rawHeaders.length; i += 2) {
    const name = request.rawHeaders[i] ?? ''
    if (!UPGRADING.has(name.toLowerCase())) lines.push(`${name}: ${request.rawHeaders[i + 1] ?? ''}`)
  }
  socket.unshift(Buffer.concat([Buffer.from(`${lines.join('\r\n')}\r\nConnection: close\r\n\r\n`, 'latin1'), head]))
  server.emit('connection', socket)
}

/** Answers a request to upgrade with a status, and ends its connection. */
export const refuseUpgrade = (socket: Duplex, status: number): void => {
  socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`)
}
