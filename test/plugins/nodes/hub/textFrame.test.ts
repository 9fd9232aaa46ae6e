import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { WebSocket, WebSocketServer } from 'ws'
import { writeText } from '../../../../plugins/nodes/hub/textFrame.js'

describe('a text message written in one piece', () => {
  it('arrives as it was, whatever its length and its characters, in order with those of the library', async () => {
    const lengths = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]
    const texts = lengths.flatMap(length => ['x'.repeat(length), 'é'.repeat(length), `${'x'.repeat(length)}\u{1f600}\u0080\x1e`])
    const http = createServer()
    const server = new WebSocketServer({ noServer: true, perMessageDeflate: false })
    http.on('upgrade', (request, stream, head) => {
      server.handleUpgrade(request, stream, head, socket => {
        for (const text of texts) {
          writeText(stream, text)
          socket.send(`after ${text.length}`)
        }
      })
    })
    await new Promise<void>(resolve => http.listen(0, '127.0.0.1', resolve))
    const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`)
    try {
      const received: string[] = []
      await new Promise<void>((resolve, reject) => {
        client.on('message', (data: Buffer, isBinary) => {
          assert.equal(isBinary, false)
          received.push(data.toString())
          if (received.length === 2 * texts.length) resolve()
        })
        client.on('error', reject)
      })
      assert.deepEqual(
        received,
        texts.flatMap(text => [text, `after ${text.length}`]),
      )
    } finally {
      client.close()
      await once(client, 'close')
      http.close()
    }
  })
})
