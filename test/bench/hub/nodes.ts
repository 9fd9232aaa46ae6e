import { request } from 'node:http'
import { WebSocket } from 'ws'
import { HUB_PATH, nodeIdOf, tokenOf } from './names.js'

/** What the nodes speak. `ws`: bare JSON, without a hub. */
export type Protocol = 'ws' | 'socket.io' | 'signalr'

/** Loopback addresses that connections come from, so that ports do not run out, so many on each. */
const PER_ADDRESS = 5000

/**
 * A node with as little as its protocol needs: what is measured is the other side. Every command is answered with its
 * parameters; `lost` is called when the connection ends.
 */
export interface BenchNode {
  socket: WebSocket
  beat(): void
}

interface Options {
  protocol: Protocol
  url: string
  index: number
  /** Ask for a connection first, as the unmodified client of SignalR does. */
  negotiates?: boolean
  onEnd?: (index: number) => void
  onCommand?: () => void
}

const SEPARATOR = '\x1e'

interface Command {
  commandId: string
  params: unknown
}

const heartbeatOf = (index: number) => ({
  nodeId: nodeIdOf(index),
  status: 'online',
  uptime: 1000 + index,
  platform: 'linux',
  version: '1.0.0',
  cpuPercent: 3,
  memoryMb: 120,
})

const resultOf = ({ commandId, params }: Command) => ({
  commandId,
  ok: true,
  result: params,
  durationMs: 1,
  protocolVersion: '2026-04-01',
})

/** How each protocol begins, is ready, and carries a message. */
const speech = {
  ws: {
    path: () => '/',
    hello: undefined,
    read: (frame: string, { ready, command }: Heard) => {
      if (frame === 'ready') ready()
      else command(JSON.parse(frame) as Command)
      return undefined
    },
    write: (_: string, argument: unknown) => JSON.stringify(argument),
  },
  'socket.io': {
    path: (index: number) => `${HUB_PATH}/?EIO=4&transport=websocket&access_token=${tokenOf(index)}`,
    hello: undefined,
    read: (frame: string, { ready, command }: Heard) => {
      if (frame.startsWith('42["ExecuteCommand"')) command((JSON.parse(frame.slice(2)) as [string, Command])[1])
      else if (frame === '2') return '3'
      else if (frame.startsWith('0')) return '40'
      else if (frame.startsWith('40')) ready()
      return undefined
    },
    write: (method: string, argument: unknown) => `42${JSON.stringify([method, argument])}`,
  },
  signalr: {
    path: (index: number) => `${HUB_PATH}?access_token=${tokenOf(index)}`,
    hello: `{"protocol":"json","version":1}${SEPARATOR}`,
    read: (frame: string, { ready, command }: Heard) => {
      for (const text of frame.split(SEPARATOR)) {
        if (text === '') continue
        const message = JSON.parse(text) as { type?: number; error?: string; target?: string; arguments?: [Command] }
        if (message.type === 1 && message.target === 'ExecuteCommand' && message.arguments) command(message.arguments[0])
        else if (message.type === undefined && message.error === undefined) ready()
      }
      return undefined
    },
    write: (target: string, argument: unknown) => `${JSON.stringify({ type: 1, target, arguments: [argument] })}${SEPARATOR}`,
  },
}

interface Heard {
  ready: () => void
  command: (command: Command) => void
}

/** Resolves once the node is let in; rejects when the connection ends before. */
export const connectNode = async ({ protocol, url, index, negotiates = false, onEnd, onCommand }: Options): Promise<BenchNode> => {
  const { path, hello, read, write } = speech[protocol]
  const localAddress = `127.0.0.${1 + Math.floor(index / PER_ADDRESS)}`
  const id = negotiates && protocol === 'signalr' ? `&id=${await negotiate(url, index, localAddress)}` : ''
  const socket = new WebSocket(`${url.replace('http', 'ws')}${path(index)}${id}`, { perMessageDeflate: false, localAddress })
  return new Promise((resolve, reject) => {
    let isReady = false
    const heard: Heard = {
      ready: () => {
        isReady = true
        resolve({
          socket,
          beat: () => {
            socket.send(write('Heartbeat', heartbeatOf(index)))
          },
        })
      },
      command: command => {
        socket.send(write('CommandResult', resultOf(command)))
        onCommand?.()
      },
    }
    socket.on('open', () => {
      if (hello !== undefined) socket.send(hello)
    })
    socket.on('message', (data: Buffer) => {
      const answer = read(data.toString(), heard)
      if (answer !== undefined) socket.send(answer)
    })
    socket.on('error', reject)
    socket.on('close', () => {
      if (isReady) onEnd?.(index)
      else reject(new Error(`The connection of ${nodeIdOf(index)} was closed before it was ready`))
    })
  })
}

const negotiate = (url: string, index: number, localAddress: string): Promise<string> =>
  new Promise((resolve, reject) => {
    const asked = request(
      `${url}${HUB_PATH}/negotiate?negotiateVersion=1`,
      { method: 'POST', localAddress, headers: { Authorization: `Bearer ${tokenOf(index)}`, 'Content-Length': 0 } },
      response => {
        let text = ''
        response.setEncoding('utf8')
        response.on('data', (chunk: string) => (text += chunk))
        response.on('end', () => {
          resolve((JSON.parse(text) as { connectionToken: string }).connectionToken)
        })
      },
    )
    asked.on('error', reject)
    asked.end()
  })
