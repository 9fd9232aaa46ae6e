import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { DefaultEventsMap, Socket } from 'socket.io'
import type { WebSocket } from 'ws'
import type { Log } from '../../../core/log.js'
import type { NodeSession, Transport } from '../session.js'
import { claimOf } from './claim.js'
import { hear } from './hear.js'
import type { Admitted, Hub } from './hub.js'
import { Meter } from './meter.js'
import { Refusal } from './refusal.js'
import { writeText } from './textFrame.js'

/** How long a connection may take to say who it is. */
export const HANDSHAKE_LIMIT_MS = 10_000
const PONG_LIMIT_MS = 20_000
const OPEN = 1
/** A message of Engine.IO (4) that is an event of Socket.IO (2) in the default namespace. */
const EVENT = '42'

export interface ProtocolOptions {
  maxMessageBytes: number
  /** Of one connection; 0: no limit. */
  maxBytesPerMinute: () => number
  pingIntervalMs: number
  addressOf: (request: IncomingMessage) => string
  log: Log
}

/** One protocol of the hub, given its requests as they come. */
export interface HubProtocol {
  request(request: IncomingMessage, response: ServerResponse): void
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  close(): void
}

/** What is used of an Engine.IO connection beyond its types. */
interface Connection {
  request: unknown
  readyState: string
  /** Packets that wait for the transport to be writable. */
  writeBuffer: readonly { data?: { length: number } }[]
  transport: { name: string; writable: boolean; socket?: WebSocket & { _socket: Duplex } }
  close(discard?: boolean): void
  on(event: 'packet', heard: (packet: { data?: string | Buffer }) => void): void
}

interface Metered {
  meter: Meter
  onFlood: () => void
}

type NodeSocket = Socket<DefaultEventsMap, DefaultEventsMap, DefaultEventsMap, { admitted: Admitted | undefined }>
type Acknowledge = (answer?: unknown) => void

/** Socket.IO at its default namespace: events named and shaped as in the specification, each with one argument. */
export const openSocketIo = async (hub: Hub, options: ProtocolOptions): Promise<HubProtocol> => {
  const { maxMessageBytes, maxBytesPerMinute, pingIntervalMs, addressOf, log } = options
  const [{ Server }, { Server: Engine }] = await Promise.all([import('socket.io'), import('engine.io')])
  const engine = new Engine({
    maxHttpBufferSize: maxMessageBytes,
    pingInterval: pingIntervalMs,
    pingTimeout: PONG_LIMIT_MS,
    // It would cost 280 KB a connection.
    perMessageDeflate: false,
    httpCompression: false,
  })
  const meters = new WeakMap<object, Metered>()
  engine.on('connection', (connection: Connection) => {
    const metered: Metered = { meter: new Meter(maxBytesPerMinute, maxMessageBytes), onFlood: () => undefined }
    meters.set(connection, metered)
    // Binary data comes as frames of its own behind the text of its event.
    connection.on('packet', ({ data }) => {
      if (metered.meter.take(data?.length ?? 0, typeof data === 'object')) return
      metered.onFlood()
      connection.close(true)
    })
  })
  const io = new Server({ serveClient: false, connectTimeout: HANDSHAKE_LIMIT_MS })
  io.bind(engine)
  // In a promise from the start: what a middleware throws, nothing would catch.
  const admit = async ({ handshake: { query, auth, headers }, request }: NodeSocket): Promise<Admitted> =>
    hub.admit(claimOf(headers.authorization, { ...textsOf(query), ...tokenIn(auth) }, addressOf(request)))
  io.use((socket: NodeSocket, next) => {
    admit(socket).then(
      admitted => {
        socket.data.admitted = admitted
        next()
      },
      (error: unknown) => {
        next(toConnectError(error))
      },
    )
  })
  io.on('connection', (socket: NodeSocket) => {
    const { admitted } = socket.data
    socket.data.admitted = undefined
    const metered = meters.get(socket.conn)
    if (!admitted || !metered) {
      socket.disconnect(true)
      return
    }
    metered.meter.admit()
    const session = attach(hub, socket, admitted, log)
    metered.onFlood = () => hub.flooded(session)
  })
  return {
    request: (request, response) => {
      engine.handleRequest(request, response)
    },
    upgrade: (request, socket, head) => {
      engine.handleUpgrade(request, socket, head)
    },
    // Not `io.close()`: disconnected by the server, nodes would not come back.
    close: () => void engine.close(),
  }
}

const attach = (hub: Hub, socket: NodeSocket, admitted: Admitted, log: Log): NodeSession => {
  forgetRequest(socket)
  const session: NodeSession = hub.open(admitted, new SocketIoTransport(socket))
  // What stands first in an event's packet is the sender's: anything, or nothing.
  socket.onAny((event: unknown, ...parameters: unknown[]) => {
    const method = typeof event === 'string' ? event : ''
    const last = parameters.at(-1)
    const acknowledge = typeof last === 'function' ? (last as Acknowledge) : undefined
    hear(hub, session, { method, argument: parameters[0] }, log, refusal => {
      if (refusal) acknowledge?.({ error: refusal })
      else acknowledge?.()
    })
  })
  socket.once('disconnect', () => {
    hub.closed(session)
    // A client may leave the namespace and stay connected: its request is forgotten, and there is nothing else for it here.
    connectionOf(socket).close()
  })
  return session
}

/** The request that opened the connection, its token with it, is not kept for the connection's life. */
const forgetRequest = (socket: NodeSocket): void => {
  connectionOf(socket).request = undefined
  ;(socket as { handshake: unknown }).handshake = undefined
}

class SocketIoTransport implements Transport {
  readonly name = 'socket.io'
  readonly #socket: NodeSocket

  constructor(socket: NodeSocket) {
    this.#socket = socket
  }

  send(method: string, argument: unknown): void {
    const { readyState, transport, writeBuffer } = this.#connection
    // In its turn, and as the libraries would write it, without their seven layers: they cost as much as the rest of a call.
    if (transport.socket?.readyState === OPEN && readyState === 'open' && transport.writable && writeBuffer.length === 0)
      writeText(transport.socket._socket, EVENT + JSON.stringify([method, argument]))
    else this.#socket.emit(method, argument)
  }

  get unsentBytes(): number {
    const { writeBuffer, transport } = this.#connection
    let bytes = transport.socket?.bufferedAmount ?? 0
    for (const { data } of writeBuffer) bytes += data?.length ?? 0
    return bytes
  }

  /** Engine.IO has packets of its own for this; the specification's WebSocket ping comes beside them. */
  ping(): void {
    const { name, socket } = this.#connection.transport
    if (name === 'websocket' && socket?.readyState === OPEN) socket.ping()
  }

  /** The protocol has no words for a reason; a revoked node has been told by its own invocation. */
  close(reason: string, mayReturn: boolean): void {
    if (reason !== 'admin_revoked' && reason !== 'slow') this.#socket.emit('Closing', { reason })
    // Disconnected by the server a client stays away; when its connection closes it comes back.
    if (mayReturn) this.#connection.close(reason === 'slow')
    else this.#socket.disconnect(true)
  }

  get #connection(): Connection {
    return connectionOf(this.#socket)
  }
}

const connectionOf = (socket: NodeSocket): Connection => socket.conn as unknown as Connection

const toConnectError = (error: unknown): Error => {
  const { code, message } = error instanceof Refusal ? error : new Refusal('internal_error', 'The connection could not be checked')
  return Object.assign(new Error(message), { data: { code, message } })
}

const textsOf = (query: Record<string, string | string[] | undefined>): Record<string, string | undefined> =>
  Object.fromEntries(Object.entries(query).map(([name, value]) => [name, Array.isArray(value) ? value.at(-1) : value]))

const tokenIn = (auth: Record<string, unknown>): Record<string, string> => ({
  ...(typeof auth.token === 'string' ? { access_token: auth.token } : {}),
  ...(typeof auth.protocolVersions === 'string' ? { protocolVersions: auth.protocolVersions } : {}),
})
