// Nodes in a process of their own that answer every command: clusterNodes.ts, with {url, token}[] in NODES
import { io } from 'socket.io-client'

const nodes = JSON.parse(process.env.NODES ?? '[]') as { url: string; token: string }[]
await Promise.all(
  nodes.map(
    ({ url, token }) =>
      new Promise<void>(resolve => {
        const socket = io(url, { path: '/hubs/node', query: { access_token: token }, transports: ['websocket'], forceNew: true })
        socket.on('ExecuteCommand', ({ commandId, params }: { commandId: string; params: unknown }) => {
          socket.emit('CommandResult', { commandId, ok: true, result: params, durationMs: 1 })
        })
        socket.once('connect', () => {
          resolve()
        })
      }),
  ),
)
process.stdout.write('listening on nothing\n')
