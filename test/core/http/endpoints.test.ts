import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import type { Duplex } from 'node:stream'
import { z } from 'zod'
import { route } from '../../../core/http/route.js'
import { definePlugin } from '../../../core/plugin.js'
import { startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

const echo = route({
  method: 'POST',
  path: '/echo',
  access: 'public',
  limit: 'none',
  summary: 'Says it again',
  body: z.object({ text: z.string() }),
  returns: z.object({ text: z.string() }),
  handle: ({ body }) => body,
})

describe('an endpoint beside the API', () => {
  let gateway: TestGateway
  let sockets: Duplex[]
  let closed: number

  beforeEach(async () => {
    sockets = []
    closed = 0
    const plugin = definePlugin({
      id: 'line',
      setup: ({ http, routes }) => {
        routes([echo])
        http.attach('/line', {
          request: (request, response) => void response.end(`raw ${request.url ?? ''}`),
          upgrade: (_, socket, head) => {
            sockets.push(socket)
            socket.write(`HTTP/1.1 101 Switching Protocols\r\nUpgrade: line\r\nConnection: Upgrade\r\n\r\n${head.toString()}`)
            socket.pipe(socket)
          },
          close: () => void (closed += 1),
        })
      },
    })
    gateway = await startGateway({ plugins: [plugin] })
  })
  afterEach(() => gateway.stop())

  /** Sends the text over a connection of its own, and gives what came back so far, from then on. */
  const send = async (text: string): Promise<{ received: () => string; write: (text: string) => void; isClosed: () => boolean }> => {
    const socket = connect(Number(new URL(gateway.url).port), '127.0.0.1')
    let received = ''
    let isClosed = false
    socket
      .on('data', chunk => (received += chunk.toString()))
      .on('close', () => (isClosed = true))
      .on('error', () => undefined)
    await once(socket, 'connect')
    socket.write(text)
    return { received: () => received, write: more => void socket.write(more), isClosed: () => isClosed }
  }
  const upgrade = (path: string): string => `GET ${path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: line\r\n\r\n`

  it('sees the requests and upgrades at its path and below as they came', async () => {
    for (const path of ['/line', '/line/?x=1', '/line/below']) assert.equal(await (await fetch(gateway.url + path)).text(), `raw ${path}`)
    assert.equal((await fetch(`${gateway.url}/lines`)).status, 404)
    const line = await send(upgrade('/line'))
    await waitFor('the switch', () => line.received().startsWith('HTTP/1.1 101'))
    line.write('hello')
    await waitFor('the echo', () => line.received().endsWith('hello'))
  })

  it('leaves ordinary requests alone that offer another protocol', async () => {
    const body = JSON.stringify({ text: 'hello' })
    const client = await send(
      `POST /api/echo HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AA\r\n` +
        `Content-Type: application/json\r\nContent-Length: ${String(body.length)}\r\n\r\n${body}`,
    )
    await waitFor('the answer', () => client.received().endsWith(body))
    assert.match(client.received(), /^HTTP\/1\.1 200 /)
    await waitFor('the end of the connection', client.isClosed)
    const nowhere = await send(upgrade('/nowhere'))
    await waitFor('the refusal', () => nowhere.received().startsWith('HTTP/1.1 404 ') && nowhere.isClosed())
  })

  it('does not keep the gateway from stopping', async () => {
    const line = await send(upgrade('/line'))
    await waitFor('the switch', () => line.received() !== '')
    await gateway.stop()
    assert.equal(closed, 1)
    await waitFor('the end of the connection', line.isClosed)
  })

  it('is refused at paths of the API and at a path that is taken', async () => {
    const attaching = (path: string) =>
      definePlugin({
        id: `at-${path.length}`,
        setup: ({ http }) => {
          http.attach(path, { request: () => undefined, upgrade: () => undefined, close: () => undefined })
        },
      })
    await assert.rejects(startGateway({ plugins: [attaching('/api/x')] }), /cannot be attached/)
    await assert.rejects(startGateway({ plugins: [attaching('/a'), { ...attaching('/a'), id: 'second' }] }), /Two plugins/)
  })
})
