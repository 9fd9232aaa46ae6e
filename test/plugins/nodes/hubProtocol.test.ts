import assert from 'node:assert/strict'
import { once } from 'node:events'
import { io, type Socket } from 'socket.io-client'
import { WebSocket } from 'ws'
import { nodes } from '../../../plugins/nodes/contract.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { pairNode, send, untilStatus, wait } from './support.js'

const END = '\x1e'
const HANDSHAKE = `{"protocol":"json","version":1}${END}`

/** A WebSocket as a client of any language would use it, and what came over it. */
interface Line {
  socket: WebSocket
  frames: string[]
  pings: number
  messages: () => any[] // eslint-disable-line @typescript-eslint/no-explicit-any -- of every shape
}

/** The first event of this name, its argument. */
const first = <T>(socket: Socket, name: string): Promise<T> => new Promise(resolve => socket.once(name, resolve))

describe('the hub on the wire', () => {
  let gateway: TestGateway
  let admin: string
  let token: string
  let lines: Line[]

  before(async () => {
    gateway = await startGateway({ settings: { 'Service:Nodes:PingInterval': '0.3' } })
    admin = await login(gateway)
    token = await pairNode(gateway, admin, 'robot', ['system.info'])
  })
  after(() => gateway.stop())
  beforeEach(() => (lines = []))
  afterEach(() => {
    for (const { socket } of lines) socket.terminate()
  })

  const hub = (query: string): string => `${gateway.url.replace('http', 'ws')}/hubs/node${query}`
  const open = async (query: string, options: { autoPong?: boolean; headers?: Record<string, string> } = {}): Promise<Line> => {
    const socket = new WebSocket(hub(query), options)
    const line: Line = {
      socket,
      frames: [],
      pings: 0,
      messages: () =>
        line.frames.flatMap(frame =>
          frame
            .split(END)
            .slice(0, -1)
            .map(text => JSON.parse(text)),
        ),
    }
    lines.push(line)
    socket.on('message', (data: Buffer) => line.frames.push(data.toString()))
    socket.on('ping', () => (line.pings += 1))
    await once(socket, 'open')
    return line
  }
  const statusOf = (query: string): Promise<number> =>
    new Promise((resolve, reject) => {
      const socket = new WebSocket(hub(query))
      socket.on('unexpected-response', (_, response) => {
        resolve(response.statusCode ?? 0)
        socket.terminate()
      })
      socket.on('error', () => undefined)
      socket.on('open', () => reject(new Error('it was let in')))
    })
  const negotiate = async (query = '?negotiateVersion=1') => {
    const answer = await fetch(`${gateway.url}/hubs/node/negotiate${query}`, { method: 'POST' })
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }
  const closed = (line: Line) => waitFor('the end', () => line.socket.readyState === WebSocket.CLOSED)
  /** A SignalR connection without negotiation, past its handshake. */
  const connect = async (as = token): Promise<Line> => {
    const line = await open(`?access_token=${as}`)
    line.socket.send(HANDSHAKE)
    await waitFor('the handshake', () => line.frames.length > 0)
    return line
  }

  it('negotiates: an id connects once, an unknown one never', async () => {
    const { status, body } = await negotiate()
    assert.equal(status, 200)
    assert.deepEqual(body.availableTransports, [{ transport: 'WebSockets', transferFormats: ['Text'] }])
    assert.notEqual(body.connectionId, body.connectionToken)
    assert.equal(await statusOf(`?id=${String(body.connectionId)}&access_token=${token}`), 404)
    const line = await open(`?id=${String(body.connectionToken)}`, { headers: { Authorization: `Bearer ${token}` } })
    line.socket.send(HANDSHAKE)
    await waitFor('the handshake', () => line.frames[0] === `{}${END}`)
    assert.equal(await statusOf(`?id=${String(body.connectionToken)}&access_token=${token}`), 409)
    line.socket.close()
    await closed(line)
    await waitFor('the id to be forgotten', async () => (await statusOf(`?id=${String(body.connectionToken)}`)) === 404)
    const old = await negotiate('')
    assert.deepEqual([old.body.negotiateVersion, old.body.connectionToken], [0, undefined])
    assert.equal((await fetch(`${gateway.url}/hubs/node`)).status, 404)
  })

  it('ends every SignalR frame with the separator, and answers an invocation only when it has an id', async () => {
    const line = await connect()
    const call = (message: unknown): void => line.socket.send(JSON.stringify(message) + END)
    call({ type: 1, target: 'Heartbeat', arguments: [{ nodeId: 'robot' }] })
    call({ type: 1, target: 'nothing', arguments: [] })
    call({ type: 6 })
    call({ type: 1, target: 'heartbeat', arguments: [{ nodeId: 'robot' }], invocationId: 'a' })
    call({ type: 1, target: 'nothing', arguments: [], invocationId: 'b' })
    call({ type: 4, target: 'Heartbeat', arguments: [], invocationId: 'c' })
    call({ type: 1, target: 'CommandResult', arguments: [{ commandId: 'none', ok: true }], invocationId: 'd' })
    const answers = await waitFor('four answers', () => {
      const completions = line.messages().filter(({ type }) => type === 3)
      return completions.length === 4 ? completions : undefined
    })
    const byId = Object.fromEntries(answers.map(({ invocationId, error }) => [invocationId, error as string | undefined]))
    assert.equal(byId.a, undefined)
    assert.match(byId.b, /There is no method/)
    assert.match(byId.c, /streamed/)
    assert.match(byId.d, /not_found/)
    assert.ok(line.frames.every(frame => frame.endsWith(END)))
  })

  it('takes several messages in one frame', async () => {
    const line = await connect()
    const commandId = await send(gateway, admin, 'robot', { command: 'system.info' })
    await waitFor('the command', () => line.messages().some(({ target }) => target === 'ExecuteCommand'))
    const beat = JSON.stringify({ type: 1, target: 'Heartbeat', arguments: [{ nodeId: 'robot' }] })
    const result = JSON.stringify({
      type: 1,
      target: 'CommandResult',
      arguments: [{ commandId, ok: true, durationMs: 1, unknown: 'field' }],
    })
    line.socket.send(`${beat}${END}${result}${END}`)
    assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
  })

  it('says in the handshake why a node is not let in, and ends the connection', async () => {
    const line = await connect('robot.wrong')
    assert.match(line.messages()[0].error, /^unauthenticated: /)
    await closed(line)
    for (const first of [`{"protocol":"messagepack","version":1}${END}`, 'text', `[]${END}`, END]) {
      const odd = await open(`?access_token=${token}`)
      odd.socket.send(first)
      await closed(odd)
      assert.match(odd.messages()[0].error, /protocol/)
    }
  })

  it('ends a connection whose frames cannot be read', async () => {
    for (const frame of ['{"type":6}', `{"type":`, `7${END}`, Buffer.from([1, 2, 3]), `{"type":6}${END}{`]) {
      const line = await connect()
      line.socket.send(frame)
      await closed(line)
      assert.equal(line.messages().at(-1).type, 7)
    }
  })

  it('pings every connection, in both protocols, and cuts one that does not answer', async () => {
    const line = await connect()
    await waitFor('three pings', () => line.pings >= 3 && line.messages().filter(({ type }) => type === 6).length >= 3)
    const socket = io(gateway.url, { path: '/hubs/node', auth: { token }, transports: ['websocket'], reconnection: false })
    let pings = 0
    await first(socket, 'connect')
    ;(socket.io.engine.transport as unknown as { ws: WebSocket }).ws.on('ping', () => (pings += 1))
    await waitFor('three pings', () => pings >= 3)
    socket.close()
    const deaf = await open(`?access_token=${token}`, { autoPong: false })
    deaf.socket.send(HANDSHAKE)
    await closed(deaf)
    await untilStatus(gateway, admin, 'robot', 'offline')
  })

  it('takes a Socket.IO token from the query, from auth and from a header, over either transport', async () => {
    for (const options of [
      { query: { access_token: token } },
      { auth: { token }, transports: ['polling'] },
      { extraHeaders: { Authorization: `Bearer ${token}` }, transports: ['websocket'] },
    ]) {
      const socket = io(gateway.url, { path: '/hubs/node', reconnection: false, forceNew: true, ...options })
      await first(socket, 'connect')
      const commands: unknown[] = []
      socket.on('ExecuteCommand', ({ commandId }, ...more) => {
        commands.push(...more)
        socket.emit('CommandResult', { commandId, ok: true, result: { image: Buffer.from('bytes') }, durationMs: 1 })
      })
      const commandId = await send(gateway, admin, 'robot', { command: 'system.info' })
      assert.deepEqual((await wait(gateway, admin, commandId)).result, { image: Buffer.from('bytes').toString('base64') })
      assert.deepEqual(commands, [], 'one argument')
      await assert.doesNotReject(socket.timeout(5000).emitWithAck('Heartbeat', { nodeId: 'robot' }))
      assert.equal((await socket.timeout(5000).emitWithAck('CommandResult', 7)).error.code, 'invalid_params')
      socket.close()
    }
  })

  it('gives away nothing without a token, and does not keep who is silent', async () => {
    const socket = io(gateway.url, { path: '/hubs/node', reconnection: false, forceNew: true })
    const error = await first<Error & { data: unknown }>(socket, 'connect_error')
    assert.deepEqual(Object.keys(error.data as object), ['code', 'message'])
    socket.close()
    const elsewhere = io(`${gateway.url}/admin`, { path: '/hubs/node', reconnection: false, forceNew: true, auth: { token } })
    await first(elsewhere, 'connect_error')
    elsewhere.close()
  })

  it('gives commands of every size and alphabet in their order over Socket.IO, also while it changes its transport', async () => {
    const texts = Array.from(
      { length: 24 },
      (_, n) => `${n} ${['', 'x', 'é€', '\u{1f600}'][n % 4]?.repeat([1, 200, 70_000][n % 3] ?? 0) ?? ''}`,
    )
    for (const transports of [['polling', 'websocket'], ['websocket'], ['polling']]) {
      const socket = io(gateway.url, { path: '/hubs/node', auth: { token }, transports, reconnection: false, forceNew: true })
      const received: string[] = []
      socket.on('ExecuteCommand', ({ commandId, params }: { commandId: string; params: { text: string } }) => {
        received.push(params.text)
        socket.emit('CommandResult', { commandId, ok: true, result: params, durationMs: 1 })
      })
      await first(socket, 'connect')
      const ids: string[] = []
      for (const text of texts) ids.push(await send(gateway, admin, 'robot', { command: 'system.info', params: { text } }))
      for (const [n, id] of ids.entries()) assert.deepEqual((await wait(gateway, admin, id)).result, { text: texts[n] })
      assert.deepEqual(received, texts)
      socket.close()
    }
  })

  it('keeps the commands of a Socket.IO node that does not read, and gives them over its next connection', async () => {
    const connected = async (): Promise<Socket> => {
      const socket = io(gateway.url, {
        path: '/hubs/node',
        auth: { token },
        transports: ['websocket'],
        reconnection: false,
        forceNew: true,
      })
      await first(socket, 'connect')
      return socket
    }
    const deaf = await connected()
    ;(deaf.io.engine.transport as unknown as { ws: WebSocket }).ws.pause()
    const params = { text: 'x'.repeat(900_000) }
    const ids = await Promise.all(
      Array.from({ length: 24 }, () => send(gateway, admin, 'robot', { command: 'system.info', params, timeoutMs: 120_000 })),
    )
    const next = await connected()
    next.on('ExecuteCommand', ({ commandId }: { commandId: string }) => next.emit('CommandResult', { commandId, ok: true, durationMs: 1 }))
    for (const id of ids) assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
    deaf.close()
    next.close()
  })

  it('cancels what was called over a connection that another one replaces, also when it does not close', async () => {
    const owner = { tenant: null, userId: (await gateway.call('GET', '/auth/me', { token: admin })).body.id as string }
    const gone = await connect()
    gone.socket.pause()
    await untilStatus(gateway, admin, 'robot', 'online')
    const calling = gateway.service(nodes).call(owner, 'robot', { command: 'system.info', timeoutMs: 60_000 })
    await connect()
    assert.equal((await calling).status, 'cancelled')
  })

  it('ends the connection of a Socket.IO node that leaves the namespace, and lets it come back over another', async () => {
    const socketIo = async (): Promise<Line> => {
      const line = await open('/?EIO=4&transport=websocket')
      line.socket.send(`40${JSON.stringify({ token })}`)
      await waitFor('to be let in', () => line.frames.some(frame => frame.startsWith('40')))
      return line
    }
    const line = await socketIo()
    await untilStatus(gateway, admin, 'robot', 'online')
    line.socket.send('41')
    await untilStatus(gateway, admin, 'robot', 'offline')
    line.socket.send(`40${JSON.stringify({ token })}`)
    await closed(line)
    assert.equal(line.frames.filter(frame => frame.startsWith('40')).length, 1)
    await socketIo()
    await untilStatus(gateway, admin, 'robot', 'online')
  })

  it('cuts a node that does not read, and keeps the rest of its commands', async () => {
    const line = await connect()
    line.socket.pause()
    const params = { text: 'x'.repeat(900_000) }
    const ids = await Promise.all(
      Array.from({ length: 24 }, () => send(gateway, admin, 'robot', { command: 'system.info', params, timeoutMs: 120_000 })),
    )
    await untilStatus(gateway, admin, 'robot', 'offline')
    let next = await connect()
    const seen = new Set<string>()
    await waitFor(
      'every command',
      async () => {
        // So busy with so much text, it may have missed a ping.
        if (next.socket.readyState === WebSocket.CLOSED) next = await connect()
        const messages = next.messages()
        // Read once: so much text read again at each look would hold up the answers to pings.
        next.frames.length = 0
        for (const { target, arguments: [command] = [] } of messages) {
          if (target !== 'ExecuteCommand') continue
          seen.add(command.commandId)
          const message = { type: 1, target: 'CommandResult', arguments: [{ commandId: command.commandId, ok: true, durationMs: 1 }] }
          next.socket.send(JSON.stringify(message) + END)
        }
        return ids.every(id => seen.has(id))
      },
      40_000,
    )
    for (const id of ids) assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
  })
})
