import assert from 'node:assert/strict'
import { connect } from 'node:net'
import fc from 'fast-check'
import { WebSocket } from 'ws'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { answering, connectNode, pairNode, send, wait, type Protocol } from './support.js'

const END = '\x1e'
const METHODS = ['Heartbeat', 'CommandResult', 'ScopeChanged', '__proto__', 'constructor', 'connect', 'disconnect', 'error', '']

/** What a hostile node may put where an object is wanted: near misses of the real thing, and anything. */
const argument = fc.oneof(
  fc.jsonValue({ maxDepth: 3 }),
  fc.record(
    {
      commandId: fc.oneof(fc.string(), fc.jsonValue()),
      ok: fc.oneof(fc.boolean(), fc.jsonValue()),
      result: fc.oneof(
        fc.object({ maxDepth: 2, withNullPrototype: false }),
        fc.constant(JSON.parse('{"__proto__":{"x":1},"$set":{"a.b":1}}')),
      ),
      error: fc.oneof(fc.record({ code: fc.constantFrom('busy', 'x'), retryAfterMs: fc.double() }), fc.jsonValue()),
      partIndex: fc.oneof(fc.integer(), fc.jsonValue()),
      isLast: fc.boolean(),
      nodeId: fc.constantFrom('robot', 'other'),
      uptime: fc.double(),
    },
    { requiredKeys: [] },
  ),
)
const text = (value: unknown): string => JSON.stringify(value)
const method = fc.oneof(fc.constantFrom(...METHODS), fc.jsonValue())

const signalRFrame = fc.oneof(
  fc
    .tuple(method, argument, fc.option(fc.string()))
    .map(([target, value, id]) => text({ type: 1, target, arguments: [value], invocationId: id }) + END),
  fc
    .tuple(fc.jsonValue(), method, argument)
    .map(([type, target, value]) => text({ type, target, arguments: value, invocationId: value }) + END),
  fc.string().map(junk => junk + END),
  fc.string(),
)
const socketIoFrame = fc.oneof(
  fc.tuple(method, argument).map(([event, value]) => `42${text([event, value])}`),
  fc.tuple(fc.nat(), method, argument).map(([id, event, value]) => `42${String(id)}${text([event, value, value])}`),
  fc.constantFrom(
    '42[]',
    '42',
    '42{}',
    '42[null]',
    '451-["CommandResult",{"_placeholder":true,"num":0}]',
    '41',
    '6',
    '40/x,',
    '4',
    '430[1]',
  ),
  fc.string(),
)

describe('a gateway with a hostile node', () => {
  let gateway: TestGateway
  let admin: string
  let token: string
  const uncaught: unknown[] = []
  const note = (error: unknown): void => void uncaught.push(error)

  before(async () => {
    gateway = await startGateway({ settings: { 'Service:Nodes:MaxMessagesPerMinute': '0' } })
    admin = await login(gateway)
    token = await pairNode(gateway, admin, 'robot', ['system.info'])
    process.on('uncaughtExceptionMonitor', note)
  })
  after(async () => {
    process.off('uncaughtExceptionMonitor', note)
    await gateway.stop()
  })

  /** Opens a connection past its handshake, sends every frame, and hears it end or ends it. */
  const pour = (protocol: Protocol, frames: string[]): Promise<void> =>
    new Promise(resolve => {
      const query = protocol === 'socket.io' ? '/?EIO=4&transport=websocket&' : '?'
      const socket = new WebSocket(`${gateway.url.replace('http', 'ws')}/hubs/node${query}access_token=${token}`)
      socket.on('error', () => undefined).on('close', () => resolve())
      socket.on('open', () => socket.send(protocol === 'socket.io' ? '40' : `{"protocol":"json","version":1}${END}`))
      const isReady = (message: string): boolean => (protocol === 'socket.io' ? message.startsWith('40') : message === `{}${END}`)
      socket.on('message', (data: Buffer) => {
        if (!isReady(data.toString())) return
        for (const frame of frames) socket.send(frame)
        socket.close()
      })
    })

  for (const [protocol, frame] of [
    ['socket.io', socketIoFrame],
    ['signalr', signalRFrame],
  ] as const)
    it(`works on, whatever comes over ${protocol}`, async () => {
      await fc.assert(
        fc.asyncProperty(fc.array(frame, { minLength: 1, maxLength: 20 }), frames => pour(protocol, frames)),
        { numRuns: 100 },
      )
      assert.deepEqual(uncaught, [])
      const node = answering(await connectNode(protocol, gateway, token))
      assert.equal((await wait(gateway, admin, await send(gateway, admin, 'robot', { command: 'system.info' }))).status, 'succeeded')
      await node.close()
      assert.doesNotMatch(gateway.logged(), /of a node failed/)
    })

  it('works on, however its requests are broken off', async () => {
    const upgrade = 'HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n'
    const key = 'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n'
    for (const request of [
      'GET /hubs/node/?EIO=4&transport=websocket HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /hubs/node/?EIO=4&transport=polling&sid=none HTTP/1.1\r\nHost: x\r\n\r\n',
      'GET /hubs/node/?EIO=3&transport=polling HTTP/1.1\r\nHost: x\r\n\r\n',
      `GET /hubs/node/?EIO=4&transport=websocket&sid=none ${upgrade}${key}\r\n`,
      `GET /hubs/node?access_token=${token} ${upgrade}${key}\r\n`,
      `GET /hubs/node?id=%00 ${upgrade}\r\n`,
      `GET //hubs/node?%zz ${upgrade}\r\n`,
      `GET http://[ ${upgrade}\r\n`,
      'POST /hubs/node/negotiate HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999\r\n\r\nx',
      'CONNECT /hubs/node HTTP/1.1\r\nHost: x\r\n\r\n',
    ])
      for (const patienceMs of [undefined, 0, 20])
        await new Promise<void>(resolve => {
          const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1', () => {
            socket.write(request)
            if (patienceMs === undefined) socket.resetAndDestroy()
            else setTimeout(() => socket.destroy(), patienceMs)
          })
          socket.on('error', () => undefined).on('close', () => resolve())
        })
    assert.equal((await gateway.call('GET', '/nodes', { token: admin })).status, 200)
    assert.deepEqual(uncaught, [])
  })
})
