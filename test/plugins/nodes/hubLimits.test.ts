import assert from 'node:assert/strict'
import { once } from 'node:events'
import { WebSocket } from 'ws'
import { nodes } from '../../../plugins/nodes/contract.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, send, untilStatus, wait, type Protocol, type TestNode } from './support.js'

const END = '\x1e'
const MAX_MESSAGE = 100_000
const WRONG_TOKENS = 60

/** A WebSocket that speaks a protocol of the hub by hand. */
interface Line {
  socket: WebSocket
  frames: string[]
}

for (const protocol of ['socket.io', 'signalr'] satisfies Protocol[])
  describe(`a connection over ${protocol}, at its limits`, () => {
    let gateway: TestGateway
    let admin: string
    let token: string
    let open: TestNode[]
    let lines: Line[]

    before(async () => {
      const settings = { 'Service:Nodes:MaxMessageBytes': String(MAX_MESSAGE), 'Service:Nodes:MaxBytesPerMinute': '400000' }
      gateway = await startGateway({ settings })
      admin = await login(gateway)
      token = await pairNode(gateway, admin, 'robot', ['system.info'])
    })
    after(() => gateway.stop())
    beforeEach(() => {
      open = []
      lines = []
    })
    afterEach(async () => {
      await Promise.all(open.map(node => node.close()))
      for (const { socket } of lines) socket.terminate()
      await untilStatus(gateway, admin, 'robot', 'offline')
    })

    const connect = async (): Promise<TestNode> => {
      const node = await connectNode(protocol, gateway, token)
      open.push(node)
      return node
    }
    const line = async (as = token): Promise<Line> => {
      const query = protocol === 'socket.io' ? '/?EIO=4&transport=websocket&' : '?'
      const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/hubs/node${query}access_token=${as}`)
      const opened: Line = { socket, frames: [] }
      lines.push(opened)
      socket.on('message', (data: Buffer) => opened.frames.push(data.toString()))
      await once(socket, 'open')
      return opened
    }
    const greeting = protocol === 'socket.io' ? '40' : `{"protocol":"json","version":1}${END}`
    /** Says hello, and gives what the gateway answers to that. */
    const greeted = async (opened: Line): Promise<string> => {
      opened.socket.send(greeting)
      return waitFor('an answer', () => opened.frames.find(frame => frame.startsWith('{') || /^4[04]/.test(frame)))
    }
    const result = (size: number, commandId = 'none') => ({ commandId, ok: true, result: { text: 'x'.repeat(size) }, durationMs: 1 })

    it('is told that another one has replaced it', async () => {
      const first = await connect()
      const second = await connect()
      await waitFor('the end of the first', () => !first.isOpen())
      // A SignalR client has a place for the reason; to one of Socket.IO it is an event of its own.
      if (protocol === 'signalr') assert.match(first.ended() ?? '', /replaced/)
      else assert.deepEqual(first.heard, [{ method: 'Closing', argument: { reason: 'replaced' } }])
      assert.ok(second.isOpen())
      assert.deepEqual(second.heard, [])
    })

    it('is cut beyond its bytes of a minute, and told why, while smaller results pass', async () => {
      const node = await connect()
      for (let i = 0; i < 4; i++) {
        const commandId = await send(gateway, admin, 'robot', { command: 'system.info' })
        await waitFor('the command', () => node.commands.length === i + 1)
        node.invoke('CommandResult', result(90_000, commandId))
        assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
      }
      node.invoke('CommandResult', result(90_000))
      await waitFor('the cut', () => !node.isOpen())
      if (protocol === 'signalr') assert.match(node.ended() ?? '', /rate_limited/)
      else assert.deepEqual(node.heard.at(-1), { method: 'Closing', argument: { reason: 'rate_limited' } })
      await untilStatus(gateway, admin, 'robot', 'offline')
      answering(await connect())
      assert.equal((await wait(gateway, admin, await send(gateway, admin, 'robot', { command: 'system.info' }))).status, 'succeeded')
    })

    it('is cut when one message is too large, whatever pieces it comes in', async () => {
      const opened = await line()
      await greeted(opened)
      if (protocol === 'signalr') opened.socket.send('x'.repeat(MAX_MESSAGE + 1))
      else {
        opened.socket.send('453-["CommandResult",{"a":{"_placeholder":true,"num":0},"b":{"_placeholder":true,"num":1}}]')
        for (let i = 0; i < 2; i++) opened.socket.send(Buffer.alloc(60_000))
      }
      await waitFor('the cut', () => opened.socket.readyState === WebSocket.CLOSED)
    })

    it('is cut when it says much before it is let in', async () => {
      const opened = await line('robot.wrong')
      opened.socket.send(protocol === 'signalr' ? 'x'.repeat(5000) : `2${'x'.repeat(5000)}`)
      await waitFor('the cut', () => opened.socket.readyState === WebSocket.CLOSED)
    })

    it('with a wrong token is told to wait, after many from its address; a right one is let in', async () => {
      for (let i = 0; i < WRONG_TOKENS; i++) {
        const opened = await line(`robot${i % 3}.wrong${i}`)
        const said = await greeted(opened)
        opened.socket.terminate()
        if (/rate_limited/.test(said)) break
        assert.match(said, /unauthenticated/)
      }
      assert.match(await greeted(await line('robot.wrong')), /rate_limited.*Too many wrong node tokens/)
      answering(await connect())
      assert.equal((await wait(gateway, admin, await send(gateway, admin, 'robot', { command: 'system.info' }))).status, 'succeeded')
    })

    it('says itself that a command took too long: its word counts, not that of the gateway', async () => {
      const node = await connect()
      const error = { code: 'timeout', message: 'It was at 80 % when its time was over', details: { percent: 80 } }
      node.onCommand = ({ commandId, timeoutMs }) => {
        setTimeout(() => node.invoke('CommandResult', { commandId, ok: false, error, durationMs: timeoutMs }), timeoutMs + 100)
      }
      const commandId = await send(gateway, admin, 'robot', { command: 'system.info', timeoutMs: 200 })
      assert.deepEqual(await wait(gateway, admin, commandId), { commandId, status: 'timed_out', ok: false, error, durationMs: 200 })
      const owner = { tenant: null, userId: (await gateway.call('GET', '/auth/me', { token: admin })).body.id as string }
      const called = await gateway.service(nodes).call(owner, 'robot', { command: 'system.info', timeoutMs: 200 })
      assert.deepEqual([called.status, called.error], ['timed_out', error])
    })
  })
