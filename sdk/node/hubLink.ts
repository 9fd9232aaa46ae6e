import type { Socket } from 'socket.io-client'
import {
  HUB_PATH,
  NODE_PROTOCOL_VERSIONS,
  readCommand,
  readScopes,
  type ExecuteCommand,
  type Heartbeat,
  type ResultMessage,
} from './protocol.js'

/** The gateway refused the connection, and said why. */
export class HubRefused extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.name = 'HubRefused'
    this.code = code
  }
}

/** Why a connection ended: `revoked` and `replaced` are for good. */
export type HubEnd = { kind: 'lost'; reason: string } | { kind: 'replaced' } | { kind: 'revoked'; reason: string }

export interface HubListener {
  onCommand: (command: ExecuteCommand) => void
  /** Resolves the scopes that are in force then, which the gateway is told. */
  onScopes: (granted: string[]) => string[]
}

interface ConnectOptions extends HubListener {
  gatewayUrl: string
  token: string
  limitMs: number
  signal: AbortSignal
}

/** A connection to the hub that is there. */
export interface HubLink {
  /** Resolves how it ended. */
  readonly ended: Promise<HubEnd>
  heartbeat(heartbeat: Heartbeat): void
  /** Resolves once the gateway has taken it; rejects with `ResultRefused`, or otherwise when it is not known whether it has. */
  result(message: ResultMessage, limitMs: number): Promise<void>
  close(): void
}

/** The gateway does not want this result: the command is over or another's. */
export class ResultRefused extends Error {
  readonly code: string

  constructor(code: string, message: string) {
    super(message)
    this.name = 'ResultRefused'
    this.code = code
  }
}

/** Codes after which sending a result again is of no use. */
const FINAL_CODES = ['not_found', 'conflict', 'invalid_params', 'validation_failed']

export const isFinalRefusal = (code: string): boolean => FINAL_CODES.includes(code)

/**
 * Connects over a WebSocket. Rejects with `HubRefused` when the gateway does not let the node in, with anything else when
 * it was not reached that way.
 */
export const connectHub = async ({ gatewayUrl, token, limitMs, signal, ...listener }: ConnectOptions): Promise<HubLink> => {
  // Loaded when it is needed: nothing but a node's connection is.
  const { io } = await import('socket.io-client')
  const { origin, pathname } = new URL(gatewayUrl)
  const socket: Socket = io(origin, {
    path: `${pathname.replace(/\/+$/, '')}${HUB_PATH}`,
    transports: ['websocket'],
    // Not in the address, which proxies log.
    auth: { token, protocolVersions: NODE_PROTOCOL_VERSIONS.join(',') },
    reconnection: false,
    forceNew: true,
    autoConnect: false,
  })
  const ended = attach(socket, listener)
  await open(socket, limitMs, signal)
  return {
    ended,
    heartbeat: heartbeat => void socket.emit('Heartbeat', heartbeat),
    result: async (message, resultLimitMs) => {
      // It would wait for a connection that does not come back.
      if (!socket.connected) throw new Error('the connection is gone')
      const answer = (await socket.timeout(resultLimitMs).emitWithAck('CommandResult', message)) as { error?: Refusal } | undefined
      if (!answer?.error) return
      const { code = 'internal_error', message: why = 'The gateway did not take the result' } = answer.error
      throw isFinalRefusal(code) ? new ResultRefused(code, why) : new Error(why)
    },
    close: () => void socket.disconnect(),
  }
}

interface Refusal {
  code?: string
  message?: string
}

const open = (socket: Socket, limitMs: number, signal: AbortSignal): Promise<void> =>
  new Promise((resolve, reject) => {
    const settle = (error?: Error): void => {
      clearTimeout(late)
      signal.removeEventListener('abort', abort)
      socket.off('connect').off('connect_error')
      if (!error) {
        resolve()
        return
      }
      socket.disconnect()
      reject(error)
    }
    const abort = (): void => settle(signal.reason as Error)
    const late = setTimeout(() => settle(new Error(`no connection to the hub within ${limitMs} ms`)), limitMs)
    signal.addEventListener('abort', abort, { once: true })
    socket.once('connect', () => settle())
    socket.once('connect_error', (error: Error & { data?: { code?: unknown } }) => {
      const { code } = error.data ?? {}
      settle(typeof code === 'string' ? new HubRefused(code, error.message) : error)
    })
    if (signal.aborted) abort()
    else socket.connect()
  })

/** Listens from before it is connected: the first command may come with the answer. */
const attach = (socket: Socket, { onCommand, onScopes }: HubListener): Promise<HubEnd> => {
  let revoked: string | undefined
  let closing: string | undefined
  socket.on('ExecuteCommand', (value: unknown) => {
    const command = readCommand(value)
    if (command) onCommand(command)
  })
  socket.on('RefreshScopes', (value: unknown) => {
    socket.emit('ScopeChanged', onScopes(readScopes(value)))
  })
  return new Promise(resolve => {
    socket.on('RevokeAccess', (value: { reason?: unknown } | undefined) => {
      revoked = typeof value?.reason === 'string' ? value.reason : 'revoked'
      socket.disconnect()
    })
    socket.on('Closing', (value: { reason?: unknown } | undefined) => {
      if (typeof value?.reason === 'string') closing = value.reason
    })
    socket.on('disconnect', reason => {
      if (revoked !== undefined) resolve({ kind: 'revoked', reason: revoked })
      // A gateway that gives no reason ends a connection so when another one of the same node has taken its place.
      else if (closing === 'replaced' || (closing === undefined && reason === 'io server disconnect')) resolve({ kind: 'replaced' })
      else resolve({ kind: 'lost', reason: closing ?? reason })
    })
  })
}
