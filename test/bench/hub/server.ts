// One side of the hub's bench, in a process of its own: server.ts ws | socket.io | gateway DATA_DIRECTORY
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { WebSocketServer, type WebSocket } from 'ws'
import { z } from 'zod'
import { createApp } from '../../../core/app.js'
import { Config } from '../../../core/config.js'
import { createLog } from '../../../core/log.js'
import { route } from '../../../core/http/route.js'
import { definePlugin } from '../../../core/plugin.js'
import { type Owner, type ScopedHandle } from '../../../core/store/collection.js'
import { nodes, type Nodes } from '../../../plugins/nodes/contract.js'
import { toRow } from '../../../plugins/nodes/newCommand.js'
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
  /** Resident memory in bytes, without what is no longer used. */
  memory: async () => {
    // Twice, with a pause: what the first frees, the second gives back.
    globalThis.gc?.()
    await new Promise(resolve => setTimeout(resolve, 200))
    globalThis.gc?.()
    return process.memoryUsage().rss
  },
  /** Processor time used so far in milliseconds, and bytes given to the disk so far. */
  work: async () => {
    const { user, system } = process.cpuUsage()
    const io = await readFile('/proc/self/io', 'utf8').catch(() => '')
    return { cpuMs: (user + system) / 1000, writtenBytes: Number(/^write_bytes: (\d+)/m.exec(io)?.[1] ?? 0) }
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
  let next = 0
  let rows: ScopedHandle<CommandRow, 'tenant'> | undefined
  const bench = definePlugin({
    id: 'bench',
    needs: { nodes },
    // As commands are kept: the same documents with the same indexes.
    collections: { rows: collections.commands },
    setup: ({ needs, store, routes }) => {
      hub = needs.nodes
      rows = store.rows
      routes([
        route({
          method: 'POST',
          path: '/bench/rows',
          access: 'user',
          limit: 'write',
          summary: 'Write one document',
          body: z.object({ command: z.string(), params: z.record(z.string(), z.unknown()) }),
          returns: z.object({ id: z.string() }),
          status: 201,
          handle: async ({ caller }) => {
            const row = commandRow(`r${String(next++)}`, caller)
            await store.rows.for(caller).insertOne(row)
            return { id: row.id }
          },
        }),
      ])
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
  return {
    ...shared,
    url: () => url,
    login: () => ({ token, owner }),
    roundTrips: ({ inFlight, milliseconds, nodes: count }: Load): Promise<Rate> =>
      measureLanes(inFlight, milliseconds, async () => {
        const outcome = await hub?.call(owner, nodeIdOf(next++ % count), { command: COMMAND, params: PARAMS })
        if (outcome?.ok !== true) throw new Error(`A call did not succeed: ${JSON.stringify(outcome)}`)
      }),
    /** Sends durable commands, one to each of so many nodes, spread over all. */
    enqueue: ({ count, nodes: known }: { count: number; nodes: number }): Promise<string[]> =>
      Promise.all(
        Array.from({ length: count }, async (_, n) => {
          const nodeId = nodeIdOf(Math.floor((n * known) / count))
          const sent = await call(url, 'POST', `/nodes/${nodeId}/commands`, { token, body: { command: COMMAND, params: PARAMS } })
          return (sent.body as { commandId: string }).commandId
        }),
      ),
    /** How many of these commands have not succeeded, once all have ended. */
    lost: async (ids: string[]): Promise<number> => {
      let count = 0
      for (const id of ids) {
        const { body: ended } = await call(url, 'GET', `/nodes/commands/${id}/wait?timeoutMs=30000`, { token })
        if ((ended as { status?: string }).status !== 'succeeded') count += 1
      }
      return count
    },
    /** The store's own durable writes, each of one document like a command's. */
    writes: ({ inFlight, milliseconds }: Omit<Load, 'nodes'>): Promise<Rate> =>
      measureLanes(inFlight, milliseconds, async () => rows?.for(owner).insertOne(commandRow(`w${String(next++)}`, owner))),
    stop: () => app.stop(),
  }
}

const commandRow = (id: string, owner: Owner): CommandRow =>
  toRow(
    owner,
    { command: COMMAND, params: PARAMS },
    { id: `${id}-4d3c-9f2e-1b2a3c4d5e6f70`, nodeId: nodeIdOf(1), status: 'dispatched', queueTtlMs: 0, now: Date.now() },
  )

/** What every one of them can do. */
export type ServerTasks = typeof shared & { url: () => string }
export type BareTasks = Awaited<ReturnType<typeof startBare>>
export type HubTasks = Awaited<ReturnType<typeof startHub>>

const [, , mode = '', dataDir = ''] = process.argv
answerTasks(mode === 'ws' ? await startBare() : mode === 'socket.io' ? await startSocketIo() : await startHub(dataDir))
