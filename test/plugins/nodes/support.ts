import { HubConnectionBuilder, HubConnectionState, LogLevel, type HubConnection } from '@microsoft/signalr'
import { io, type Socket } from 'socket.io-client'
import type { TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

type Reachable = Pick<TestGateway, 'call' | 'url'>

export const SECRET = 'a pairing secret of the tests'

/** Pairs a node as a machine and an administrator do, and returns its token. */
export const pairNode = async (gateway: Reachable, admin: string, nodeId: string, scopes: string[] = []): Promise<string> => {
  const body = { nodeId, pairingSecret: SECRET }
  const requested = await gateway.call('POST', '/nodes/pairing/request', { body })
  const approved = await gateway.call('POST', `/nodes/${nodeId}/approve`, { token: admin, body: { scopes } })
  const paired = await gateway.call('POST', '/nodes/me/pair', { body })
  if (paired.body?.token === undefined) throw new Error(`pairing failed: ${requested.text} ${approved.text} ${paired.text}`)
  return paired.body.token as string
}

/** A command as nodes get it. */
export interface Command {
  commandId: string
  command: string
  params: Record<string, unknown>
  timeoutMs: number
  originatedBy?: { userId: string; agentId: string; sessionId: string }
  protocolVersion?: string
}

/** A node of a protocol's own client, as the tests drive it. */
export interface TestNode {
  /** Every command received, in order. */
  commands: Command[]
  /** Everything else received: method and argument. */
  heard: { method: string; argument: unknown }[]
  /** What happens with each command as it arrives; set it before the command is sent. */
  onCommand: (command: Command) => void
  invoke(method: string, argument: unknown): void
  isOpen(): boolean
  /** Why the connection ended, as the client says it. */
  ended(): string | undefined
  close(): Promise<void>
}

export type Protocol = 'socket.io' | 'signalr'

interface ConnectOptions {
  protocolVersions?: string
  reconnects?: boolean
}

/** Connects an unmodified client; rejects with its error when it is not let in. */
export const connectNode = (protocol: Protocol, gateway: Reachable, token: string, options: ConnectOptions = {}): Promise<TestNode> =>
  protocol === 'socket.io' ? connectSocketIo(gateway, token, options) : connectSignalR(gateway, token, options)

const connectSocketIo = async (
  { url }: Reachable,
  token: string,
  { protocolVersions, reconnects = false }: ConnectOptions,
): Promise<TestNode> => {
  const query = { access_token: token, ...(protocolVersions === undefined ? {} : { protocolVersions }) }
  const socket: Socket = io(url, { path: '/hubs/node', query, forceNew: true, reconnection: reconnects, reconnectionDelay: 50 })
  let ended: string | undefined
  const node: TestNode = {
    commands: [],
    heard: [],
    onCommand: () => undefined,
    invoke: (method, argument) => void socket.emit(method, argument),
    isOpen: () => socket.connected,
    ended: () => ended,
    close: async () => {
      socket.close()
      await waitFor('the client to close', () => !socket.connected)
    },
  }
  socket.on('disconnect', reason => (ended = reason))
  socket.onAny((method: string, argument: unknown) => {
    hear(node, method, argument)
  })
  await new Promise<void>((resolve, reject) => {
    socket.once('connect', () => {
      socket.off('connect_error')
      resolve()
    })
    socket.on('connect_error', error => {
      socket.close()
      reject(error)
    })
  })
  return node
}

const connectSignalR = async (
  { url }: Reachable,
  token: string,
  { protocolVersions, reconnects = false }: ConnectOptions,
): Promise<TestNode> => {
  const query = protocolVersions === undefined ? '' : `?protocolVersions=${protocolVersions}`
  const builder = new HubConnectionBuilder().withUrl(`${url}/hubs/node${query}`, { accessTokenFactory: () => token })
  if (reconnects) builder.withAutomaticReconnect(Array.from({ length: 100 }, () => 100))
  const connection: HubConnection = builder.configureLogging(LogLevel.None).build()
  let ended: string | undefined
  const node: TestNode = {
    commands: [],
    heard: [],
    onCommand: () => undefined,
    invoke: (method, argument) => void connection.send(method, argument).catch(() => undefined),
    isOpen: () => connection.state === HubConnectionState.Connected,
    ended: () => ended,
    close: () => connection.stop(),
  }
  connection.onclose(error => (ended = error?.message ?? 'closed'))
  connection.onreconnecting(error => (ended = error?.message ?? 'reconnecting'))
  for (const method of ['ExecuteCommand', 'RefreshScopes', 'RevokeAccess'])
    connection.on(method, (argument: unknown) => {
      hear(node, method, argument)
    })
  await connection.start()
  return node
}

const hear = (node: TestNode, method: string, argument: unknown): void => {
  if (method !== 'ExecuteCommand') {
    node.heard.push({ method, argument })
    return
  }
  node.commands.push(argument as Command)
  node.onCommand(argument as Command)
}

/** Makes the node answer every command with its parameters, those that came already too. */
export const answering = (node: TestNode): TestNode => {
  node.onCommand = ({ commandId, params }) => {
    node.invoke('CommandResult', { commandId, ok: true, result: params, durationMs: 1, protocolVersion: '2026-04-01' })
  }
  for (const command of node.commands) node.onCommand(command)
  return node
}

export const status = async (gateway: Reachable, token: string, nodeId: string): Promise<string> => {
  const answer = await gateway.call('GET', `/nodes/${nodeId}`, { token })
  // Or a wait for something else would go on after a refusal, such as that of too many requests.
  if (answer.status !== 200) throw new Error(`the status of ${nodeId} was not answered: ${answer.text}`)
  return answer.body.status as string
}

export const untilStatus = (gateway: Reachable, token: string, nodeId: string, wanted: string, timeoutMs?: number) =>
  waitFor(`${nodeId} to be ${wanted}`, async () => (await status(gateway, token, nodeId)) === wanted, timeoutMs)

export const send = async (gateway: Reachable, token: string, nodeId: string, body: Record<string, unknown>): Promise<string> => {
  const accepted = await gateway.call('POST', `/nodes/${nodeId}/commands`, { token, body })
  if (accepted.status !== 202) throw new Error(`the command was not accepted: ${accepted.text}`)
  return accepted.body.commandId as string
}

export const wait = async (gateway: Reachable, token: string, commandId: string, timeoutMs = 20_000) =>
  (await gateway.call('GET', `/nodes/commands/${commandId}/wait?timeoutMs=${String(timeoutMs)}`, { token })).body
