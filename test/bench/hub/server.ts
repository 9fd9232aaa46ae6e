// One side of the hub's bench, in a process of its own: server.ts ws | socket.io | gateway DATA_DIRECTORY
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { WebSocketServer, type WebSocket } from 'ws'
import { createApp } from '../../../core/app.js'
import { Config } from '../../../core/config.js'
import { createLog } from '../../../core/log.js'
import { definePlugin } from '../../../core/plugin.js'
import { type Owner, type ScopedHandle } from '../../../core/store/collection.js'
import { nodes, type Nodes } from '../../../plugins/nodes/contract.js'
import { collections, type CommandRow } from '../../../plugins/nodes/rows.js'
import { plugins } from '../../../plugins/index.js'
import { ADMIN, call } from '../../support/gateway.js'
import { measureLanes, type Rate } from './lanes.js'
import { COMMAND, HUB_PATH, nodeIdOf, PARAMS } from './names.js'
import { answerTasks } from './program.js'

interface Load {
  inFlight: number
  milliseconds: number
  /** Nodes that are asked in turn. */
  nodes: number
}

const shared = {
  /** Resident memory in bytes, and the processor time used so far in milliseconds. */
  usage: async () => {
    // Twice, with a pause: what the first frees, the second gives back.
    globalThis.gc?.()
    await new Promise(resolve => setTimeout(resolve, 200))
    globalThis.gc?.()
    const { rss, heapUsed, external } = process.memoryUsage()
    const { user, system } = process.cpuUsage()
    return { rss, heapUsed, external, cpuMs: (user + system) / 1000 }
  },
}

const urlOf = (server: { address(): unknown }): string => `http://127.0.0.1:${(server.address() as AddressInfo).port}`

/** JSON over WebSockets, and a map of what was asked: the least that a round trip can be. */
const startBare = async () => {
  const http = createServer()
  const server = new WebSocketServer({ server: http, perMessageDeflate: false, clientTracking: false })
  const sockets: WebSocket[] = []
  const pending = new Map<string, (result: unknown) => void>()
  server.on('connection', socket => {
    sockets.push(socket)
    socket.on('message', (data: Buffer) => {
      const { commandId, result } = JSON.parse(data.toString()) as { commandId: string; result: unknown }
      pending.get(commandId)?.(result)
      pending.delete(commandId)
    })
    socket.send('ready')
  })
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  let lastId = 0
  let next = 0
  const once = (): Promise<unknown> =>
    new Promise(resolve => {
      const commandId = String(++lastId)
      pending.set(commandId, resolve)
      sockets[next++ % sockets.length]?.send(JSON.stringify({ commandId, command: COMMAND, params: PARAMS }))
    })
  return {
    ...shared,
    url: () => urlOf(http),
    roundTrips: ({ inFlight, milliseconds }: Load): Promise<Rate> => measureLanes(inFlight, milliseconds, once),
  }
}

/** Socket.IO as it comes, with the two settings that keep its memory low. */
const startSocketIo = async () => {
  const { Server } = await import('socket.io')
  const http = createServer()
  const io = new Server(http, { path: HUB_PATH, perMessageDeflate: false, serveClient: false })
  io.on('connection', socket => {
    ;(socket.conn as { request: unknown }).request = undefined
    socket.on('Heartbeat', () => undefined)
  })
  await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
  return { ...shared, url: () => urlOf(http) }
}

/** The gateway, and a plugin in it that calls nodes as other areas do and writes to the same store. */
const startHub = async (dataDir: string) => {
  let hub: Nodes | undefined
  let rows: ScopedHandle<CommandRow, 'tenant'> | undefined
  const bench = definePlugin({
    id: 'bench',
    needs: { nodes },
    // As commands are kept: the same documents with the same indexes.
    collections: { rows: collections.commands },
    setup: ({ needs, store }) => {
      hub = needs.nodes
      rows = store.rows
    },
  })
  const defaults = {
    'Service:DataDir': dataDir,
    'Service:Port': '0',
    'Service:Admin:Email': ADMIN.email,
    'Service:Admin:Password': ADMIN.password,
    ...Object.fromEntries(['Read', 'Write', 'Decision', 'Node'].map(name => [`Service:RateLimits:${name}`, '0'])),
  }
  const config = new Config({ file: join(dataDir, 'service.json'), defaults, env: {} })
  const app = createApp([...plugins, bench], { config, log: createLog({ level: 'warn' }) })
  const { url } = await app.start()
  const { body } = await call(url, 'POST', '/auth/login', { body: ADMIN })
  const { token, user } = body as { token: string; user: { id: string; tenant: string | null } }
  const owner: Owner = { tenant: user.tenant, userId: user.id }
  let next = 0
  return {
    ...shared,
    url: () => url,
    login: () => ({ token, owner }),
    roundTrips: ({ inFlight, milliseconds, nodes: count }: Load): Promise<Rate> =>
      measureLanes(inFlight, milliseconds, async () => {
        const outcome = await hub?.call(owner, nodeIdOf(next++ % count), { command: COMMAND, params: PARAMS })
        if (outcome?.ok !== true) throw new Error(`A call did not succeed: ${JSON.stringify(outcome)}`)
      }),
    cpu: () => process.cpuUsage(),
    /** The store's own durable writes, each of one document like a command's. */
    writes: ({ inFlight, milliseconds }: Omit<Load, 'nodes'>): Promise<Rate> =>
      measureLanes(inFlight, milliseconds, async () => rows?.for(owner).insertOne(commandRow(`w${String(next++)}`, owner))),
    stop: () => app.stop(),
  }
}

const commandRow = (id: string, { userId }: Owner): CommandRow => {
  const now = new Date().toISOString()
  return {
    id: `${id}-4d3c-9f2e-1b2a3c4d5e6f70`,
    nodeId: nodeIdOf(1),
    ownerId: userId,
    command: COMMAND,
    params: JSON.stringify(PARAMS),
    paramsId: null,
    timeoutMs: 30_000,
    agentId: null,
    sessionId: null,
    status: 'dispatched',
    needsApproval: false,
    createdAt: now,
    updatedAt: now,
    dispatchedAt: now,
    dueAt: now,
    progress: null,
    finishedAt: null,
    endedBy: null,
    ok: null,
    result: null,
    resultId: null,
    error: null,
    durationMs: null,
    truncated: [],
  }
}

export type BareTasks = Awaited<ReturnType<typeof startBare>>
export type SocketIoTasks = Awaited<ReturnType<typeof startSocketIo>>
export type HubTasks = Awaited<ReturnType<typeof startHub>>

const [, , mode = '', dataDir = ''] = process.argv
answerTasks(mode === 'ws' ? await startBare() : mode === 'socket.io' ? await startSocketIo() : await startHub(dataDir))
