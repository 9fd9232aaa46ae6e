import { randomBytes } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { RawData, WebSocket, WebSocketServer } from 'ws'
import { refuseUpgrade } from '../../../core/http/endpoints.js'
import type { Log } from '../../../core/log.js'
import type { NodeSession, Transport } from '../session.js'
import { claimOf } from './claim.js'
import { hear } from './hear.js'
import type { Admitted, Hub } from './hub.js'
import { MAX_UNADMITTED_BYTES, Meter } from './meter.js'
import { Refusal } from './refusal.js'
import { closing, completion, handshakeAnswer, invocation, PING, readFrame, toClientMessage } from './signalRMessages.js'
import { writeText } from './textFrame.js'
import { HANDSHAKE_LIMIT_MS, type HubProtocol, type ProtocolOptions } from './socketIo.js'

/** Negotiated and not yet connected; beyond it the oldest is forgotten, and its client negotiates again. */
const MAX_NEGOTIATED = 50_000
const NEGOTIATED_MS = 30_000
/** Clients join what waits to be sent into one frame: the parts of a large result, or several results, of this many times one message. */
const MAX_JOINED = 4

/** The SignalR JSON hub protocol over WebSockets, for unmodified clients. */
export const openSignalR = async (hub: Hub, options: ProtocolOptions): Promise<HubProtocol> => {
  const { WebSocketServer } = await import('ws')
  return new SignalR(
    hub,
    options,
    maxPayload => new WebSocketServer({ noServer: true, clientTracking: false, perMessageDeflate: false, maxPayload }),
  )
}

class SignalR implements HubProtocol {
  readonly #hub: Hub
  readonly #options: ProtocolOptions
  readonly #log: Log
  readonly #admitted: WebSocketServer
  readonly #refused: WebSocketServer
  readonly #negotiated = new Map<string, number>()
  readonly #connected = new Set<string>()

  constructor(hub: Hub, options: ProtocolOptions, serve: (maxPayload: number) => WebSocketServer) {
    this.#hub = hub
    this.#options = options
    this.#log = options.log
    this.#admitted = serve(MAX_JOINED * options.maxMessageBytes)
    this.#refused = serve(MAX_UNADMITTED_BYTES)
  }

  /** `POST .../negotiate`: the token is looked at when the connection comes, where a refusal can say why. */
  request(request: IncomingMessage, response: ServerResponse): void {
    request.resume()
    const { pathname, searchParams } = urlOf(request)
    if (request.method !== 'POST' || !pathname.endsWith('/negotiate')) {
      answer(response, 404, { error: { code: 'not_found', message: 'Nodes connect here over Socket.IO or SignalR', details: {} } })
      return
    }
    const connectionId = randomBytes(16).toString('base64url')
    // From version 1 on what connects is a secret of its own.
    const isVersioned = Number(searchParams.get('negotiateVersion') ?? 0) > 0
    const connectionToken = isVersioned ? randomBytes(16).toString('base64url') : connectionId
    this.#remember(connectionToken)
    answer(response, 200, {
      connectionId,
      ...(isVersioned ? { connectionToken } : {}),
      negotiateVersion: isVersioned ? 1 : 0,
      availableTransports: [{ transport: 'WebSockets', transferFormats: ['Text'] }],
    })
  }

  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void {
    const query = Object.fromEntries(urlOf(request).searchParams)
    const { id } = query
    const refusal = id === undefined ? undefined : this.#take(id)
    if (refusal !== undefined) {
      refuseUpgrade(socket, refusal)
      return
    }
    if (id !== undefined) socket.once('close', () => this.#connected.delete(id))
    const { maxBytesPerMinute, maxMessageBytes, addressOf } = this.#options
    this.#hub.admit(claimOf(request.headers.authorization, query, addressOf(request))).then(
      admitted => {
        this.#admitted.handleUpgrade(request, socket, head, connection => {
          const meter = new Meter(maxBytesPerMinute, maxMessageBytes)
          new Connection(connection, this.#hub, this.#log, maxMessageBytes).admitted(admitted, meter, socket)
        })
      },
      (error: unknown) => {
        this.#refused.handleUpgrade(request, socket, head, connection => {
          new Connection(connection, this.#hub, this.#log, maxMessageBytes).refused(error)
        })
      },
    )
  }

  close(): void {
    this.#negotiated.clear()
  }

  /** A status to refuse with, when the id is not one that may connect now. */
  #take(id: string): number | undefined {
    if (this.#connected.has(id)) return 409
    const until = this.#negotiated.get(id)
    if (!this.#negotiated.delete(id) || until === undefined || until < Date.now()) return 404
    this.#connected.add(id)
    return undefined
  }

  #remember(id: string): void {
    const now = Date.now()
    for (const [oldest, until] of this.#negotiated) {
      if (until >= now && this.#negotiated.size < MAX_NEGOTIATED) break
      this.#negotiated.delete(oldest)
    }
    this.#negotiated.set(id, now + NEGOTIATED_MS)
  }
}

/** One WebSocket, from the handshake on. */
class Connection {
  readonly #socket: WebSocket
  readonly #hub: Hub
  readonly #log: Log
  readonly #maxMessageBytes: number
  #session: NodeSession | undefined

  constructor(socket: WebSocket, hub: Hub, log: Log, maxMessageBytes: number) {
    this.#maxMessageBytes = maxMessageBytes
    this.#socket = socket
    this.#hub = hub
    this.#log = log
    socket.on('error', (error: Error) => {
      log.debug({ err: error, nodeId: this.#session?.node.id }, 'the connection of a node failed')
    })
  }

  /** `stream` is what the WebSocket runs over. */
  admitted(admitted: Admitted, meter: Meter, stream: Duplex): void {
    this.#afterHandshake(() => {
      meter.admit()
      this.#socket.send(handshakeAnswer())
      const transport = new SignalRTransport(this.#socket, stream)
      const session = this.#hub.open(admitted, transport)
      this.#session = session
      this.#socket.on('message', (data, isBinary) => {
        transport.isAlive = true
        if (!meter.take((data as Buffer).length)) this.#hub.flooded(session)
        else this.#read(session, data, isBinary)
      })
      this.#socket.once('close', () => {
        this.#hub.closed(session)
      })
    })
  }

  /** The reason is shown as the answer to the handshake: a close code before it would not be. */
  refused(error: unknown): void {
    this.#afterHandshake(() => {
      const { code, message } = error instanceof Refusal ? error : new Refusal('internal_error', 'The connection could not be checked')
      this.#refuse(`${code}: ${message}`)
    })
  }

  #afterHandshake(act: () => void): void {
    const socket = this.#socket
    const late = setTimeout(() => {
      socket.terminate()
    }, HANDSHAKE_LIMIT_MS)
    socket.once('close', () => {
      clearTimeout(late)
    })
    socket.once('message', (data, isBinary) => {
      clearTimeout(late)
      const problem = handshakeProblem(data, isBinary)
      if (problem === undefined) act()
      else this.#refuse(problem)
    })
  }

  #refuse(reason: string): void {
    this.#socket.send(handshakeAnswer(reason))
    this.#socket.close()
  }

  #read(session: NodeSession, data: RawData, isBinary: boolean): void {
    if (session.isEnded) return
    let messages: Record<string, unknown>[]
    try {
      if (isBinary) throw new TypeError('The JSON protocol is text')
      messages = readFrame(textOf(data), this.#maxMessageBytes)
    } catch (error) {
      this.#log.debug({ err: error, nodeId: session.node.id }, 'a frame of a node could not be read')
      this.#socket.send(closing('The frame could not be read', true))
      this.#socket.close()
      return
    }
    for (const message of messages) this.#act(session, message)
  }

  #act(session: NodeSession, received: Record<string, unknown>): void {
    const message = toClientMessage(received)
    if (message.kind === 'close') this.#socket.close()
    else if (message.kind === 'stream') this.#answer(message.invocationId, 'Nothing is streamed here')
    else if (message.kind === 'invocation') {
      const { target, argument, invocationId } = message
      hear(this.#hub, session, { method: target, argument }, this.#log, refusal => {
        this.#answer(invocationId, refusal && `${refusal.code}: ${refusal.message}`)
      })
    }
  }

  /** An invocation without an id is never answered. */
  #answer(invocationId: string | undefined, error?: string): void {
    if (invocationId !== undefined && this.#socket.readyState === OPEN) this.#socket.send(completion(invocationId, error))
  }
}

const OPEN = 1

class SignalRTransport implements Transport {
  readonly name = 'signalr'
  /** Something was heard since the last ping. */
  isAlive = true
  readonly #socket: WebSocket
  readonly #stream: Duplex

  constructor(socket: WebSocket, stream: Duplex) {
    this.#socket = socket
    this.#stream = stream
    socket.on('pong', () => (this.isAlive = true))
  }

  send(method: string, argument: unknown): void {
    // Nothing of the library's waits to be written before it: without compression it writes at once.
    if (this.#socket.readyState === OPEN) writeText(this.#stream, invocation(method, argument))
  }

  get unsentBytes(): number {
    return this.#socket.bufferedAmount
  }

  /** Clients end a connection on which they hear no message, and ping frames are none to them. */
  ping(): void {
    if (!this.isAlive) {
      this.#socket.terminate()
      return
    }
    this.isAlive = false
    if (this.#socket.readyState !== OPEN) return
    this.#socket.ping()
    this.#socket.send(PING)
  }

  close(reason: string, mayReturn: boolean): void {
    if (reason === 'slow') {
      this.#socket.terminate()
      return
    }
    if (this.#socket.readyState === OPEN) this.#socket.send(closing(reason, mayReturn))
    this.#socket.close()
  }
}

const handshakeProblem = (data: RawData, isBinary: boolean): string | undefined => {
  try {
    const [handshake, ...more] = isBinary ? [] : readFrame(textOf(data), MAX_UNADMITTED_BYTES)
    if (handshake?.protocol === 'json' && Number(handshake.version) >= 1 && more.length === 0) return undefined
  } catch {
    // Not even a message: the same answer.
  }
  return 'invalid_request: the first message asks for {"protocol":"json","version":1}'
}

/** Frames arrive in one piece, as a Buffer. */
const textOf = (data: RawData): string => (data as Buffer).toString('utf8')

const urlOf = (request: IncomingMessage): URL => new URL(request.url ?? '/', 'http://hub')

const answer = (response: ServerResponse, status: number, body: unknown): void => {
  response.writeHead(status, { 'Content-Type': 'application/json', 'Cache-Control': 'no-store' }).end(JSON.stringify(body))
}
