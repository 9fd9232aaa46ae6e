import assert from 'node:assert/strict'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { alone, code, pair, request, until } from './peers.js'

describe('what a JSON-RPC peer reads', () => {
  describe('framing', () => {
    it('joins characters and lines that are split at any byte', async () => {
      const text = 'añ€😀\u2028\n'
      const { peer, send, lines } = alone()
      for (const byte of Buffer.from(request('ü', 'echo', { value: text }))) send(Buffer.from([byte]))
      await until(() => lines.length === 1)
      assert.deepEqual(lines[0], { jsonrpc: '2.0', id: 'ü', result: { value: text } })
      assert.equal(peer.closed, undefined)
    })

    it('takes many messages of one chunk, with CRLF and blank lines between', async () => {
      const { send, lines, peer } = alone()
      send(
        request(1, 'echo', { value: 1 }).replace('\n', '\r\n') +
          '\n\r\n' +
          request(2, 'echo', { value: 2 }) +
          request(3, 'echo', { value: 3 }).slice(0, 20),
      )
      send(request(3, 'echo', { value: 3 }).slice(20))
      await until(() => lines.length === 3)
      assert.deepEqual(
        lines.map(({ id }) => id),
        [1, 2, 3],
      )
      assert.equal(peer.stats.noise, 0)
    })

    it('carries megabytes', async () => {
      const { left } = pair()
      const value = '€'.repeat(1_000_000)
      assert.equal((await left.request('echo', { value })).value, value)
    })

    it('reads a 15 MiB line that comes byte-wise small in linear time', async () => {
      const { send, lines } = alone()
      const frame = Buffer.from(request(1, 'echo', { value: 'x'.repeat(15 * 1024 * 1024) }))
      for (let at = 0; at < frame.length; at += 512) send(frame.subarray(at, at + 512))
      await until(() => lines.length === 1)
    }).timeout(10_000)

    it('closes with "frame too large" when a line exceeds the limit, finished or not', async () => {
      for (const text of ['x'.repeat(2000), `${'x'.repeat(2000)}\n`, `{}\n${'x'.repeat(2000)}`, `{}\n{}\n${'ü'.repeat(600)}\n`]) {
        const { peer, send } = alone({ maxFrameBytes: 1000 })
        const call = peer.request('echo', { value: 1 })
        send(text)
        await assert.rejects(call, code(RpcErrorCode.connectionClosed))
        assert.equal(peer.closed, 'frame too large')
      }
    })

    it('accepts a line of exactly the limit', async () => {
      const frame = request(1, 'echo', { value: 'ü' })
      const { send, lines } = alone({ maxFrameBytes: Buffer.byteLength(frame) - 1 })
      send(frame)
      await until(() => lines.length === 1)
    })

    it('refuses a call that would not fit in a frame, and stays open', async () => {
      const { left } = pair({ maxFrameBytes: 1000 })
      await assert.rejects(left.request('echo', { value: 'x'.repeat(1000) }), /echo: \d+ bytes are more than a frame may have \(1000\)/)
      assert.equal(left.stats.pending, 0)
      assert.deepEqual(await left.request('echo', { value: 1 }), { value: 1 })
    })

    it('answers with an error when the answer would not fit in a frame', async () => {
      const { left } = pair({}, { maxFrameBytes: 1000, handlers: { echo: () => ({ value: 'x'.repeat(1000) }) } })
      await assert.rejects(left.request('echo', { value: 1 }), /The answer: \d+ bytes are more/)
    })

    it('refuses params that have no JSON', async () => {
      const { left } = pair()
      await assert.rejects(left.request('echo', { value: 1n }), /echo cannot be written as JSON/)
      const circle: Record<string, unknown> = {}
      circle.self = circle
      await assert.rejects(left.request('echo', { value: circle }), /echo cannot be written as JSON/)
      assert.equal(left.stats.pending, 0)
    })
  })

  describe('noise', () => {
    it('is skipped and reported, and messages around it arrive', async () => {
      const noise: string[] = []
      const { send, lines } = alone({ onNoise: line => noise.push(line) })
      const invalid = [
        'plain text',
        '{"half": ',
        '5',
        'null',
        '"text"',
        '{"jsonrpc":"1.0","id":1,"method":"echo"}',
        '{"jsonrpc":"2.0"}',
        '{"jsonrpc":"2.0","method":7}',
        '{"jsonrpc":"2.0","method":"unheard"}',
      ]
      send(`${request(1, 'echo', { value: 1 })}${invalid.join('\n')}\n${request(2, 'echo', { value: 2 })}`)
      await until(() => lines.length === 2)
      assert.deepEqual(noise, invalid)
    })

    it('is cut and limited in rate, and what was left out is counted', async () => {
      const noise: string[] = []
      const { peer, send } = alone({ onNoise: line => noise.push(line) })
      send(`${'x'.repeat(5000)}\n${'noise\n'.repeat(10_000)}`)
      await until(() => peer.stats.noise === 10_001)
      assert.equal(noise.length, 20)
      assert.equal(noise[0], `${'x'.repeat(1024)}... (5000 characters)`)
      peer.close('over')
      assert.match(noise[20]!, /9981 more lines/)
    })

    it('that is binary does no harm', async () => {
      const { peer, send, lines } = alone()
      send(Buffer.from([0xff, 0xfe, 0x00, 0x0a, 0xc3, 0x0a]))
      send(request(1, 'echo', { value: 1 }))
      await until(() => lines.length === 1)
      assert.equal(peer.stats.noise, 2)
    })

    it('of late, repeated and foreign answers is ignored and counted', async () => {
      const { peer, send, lines } = alone()
      const call = peer.request('echo', { value: 1 })
      await until(() => lines.length === 1)
      send('{"jsonrpc":"2.0","id":1,"result":"first"}\n{"jsonrpc":"2.0","id":1,"result":"second"}\n')
      send(
        '{"jsonrpc":"2.0","id":"1","result":1}\n{"jsonrpc":"2.0","id":99,"error":{"code":1,"message":"x"}}\n{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}\n',
      )
      assert.equal(await call, 'first')
      await until(() => peer.stats.lateReplies === 4)
    })
  })

  describe('invalid requests', () => {
    it('in a batch are refused as a whole', async () => {
      const { send, lines } = alone()
      send(`[${request(1, 'echo', { value: 1 }).trim()}]\n`)
      await until(() => lines.length === 1)
      assert.equal((lines[0] as { error: { code: number } }).error.code, RpcErrorCode.invalidRequest)
      assert.equal(lines[0]!.id, null)
    })

    const refused: [string, string, number][] = [
      ['with an id that is an object', request({ a: 1 }, 'echo', {}), RpcErrorCode.invalidRequest],
      ['with a null id', request(null, 'echo', {}), RpcErrorCode.invalidRequest],
      ['with a boolean id', request(true, 'echo', {}), RpcErrorCode.invalidRequest],
      ['with a very long id', request('x'.repeat(257), 'echo', {}), RpcErrorCode.invalidRequest],
      ['for an unknown method', request(1, 'nothing', {}), RpcErrorCode.methodNotFound],
      ['for a method named like a prototype member', request(1, 'constructor', {}), RpcErrorCode.methodNotFound],
      ['for the method __proto__', request(1, '__proto__', {}), RpcErrorCode.methodNotFound],
      ['with positional params', request(1, 'echo', [1]), RpcErrorCode.invalidParams],
      ['with text params', request(1, 'echo', 'x'), RpcErrorCode.invalidParams],
    ]
    for (const [what, text, expected] of refused) {
      it(`${what} are refused`, async () => {
        const { send, lines } = alone()
        send(text)
        await until(() => lines.length === 1)
        assert.equal((lines[0] as { error: { code: number } }).error.code, expected)
      })
    }

    it('with an id that is under way are refused, the first goes on', async () => {
      const { send, lines, peer } = alone()
      send(request(1, 'wait') + request(1, 'echo', { value: 1 }))
      await until(() => lines.length === 1)
      assert.match((lines[0] as { error: { message: string } }).error.message, /already under way/)
      assert.equal(peer.stats.running, 1)
    })

    it('cannot reach a prototype', async () => {
      const { send, lines } = alone({ handlers: { echo: params => ({ value: Object.assign({}, params.value) }) } })
      send(
        '{"jsonrpc":"2.0","id":"__proto__","method":"echo","params":{"value":{"__proto__":{"polluted":true},"\\u005f_proto__":{"polluted":true},"a":1}}}\n',
      )
      await until(() => lines.length === 1)
      assert.deepEqual(lines[0], { jsonrpc: '2.0', id: '__proto__', result: { value: { a: 1 } } })
      assert.equal(({} as Record<string, unknown>).polluted, undefined)
    })
  })
})
