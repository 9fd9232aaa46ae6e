import { setTimeout as sleep } from 'node:timers/promises'
import { MAX_FRAME_BYTES, RpcErrorCode } from '../protocol.js'
import { brief, expect, Skip, type Check } from './check.js'
import { callOf, foreignCallOf, methodsOf } from './kinds.js'
import type { Wire } from './wire.js'

/** How long a process may take to give up a connection that is broken. */
const GIVE_UP_MS = 10_000
const LARGE_BYTES = 4 * 1024 * 1024
const PARALLEL = 100
const PAUSE_MS = 30

const STRAY_INPUT = [
  'this is no JSON',
  '',
  '   ',
  '{"jsonrpc":"2.0","id":',
  'null',
  '42',
  '"text"',
  '[]',
  '{}',
  '{"jsonrpc":"1.0","id":1}',
  '{"jsonrpc":"2.0"}',
  '{"jsonrpc":"2.0","id":987654,"result":{}}',
  '{"jsonrpc":"2.0","id":987655,"error":{"code":-1,"message":"to nothing"}}',
  '{"jsonrpc":"2.0","method":42}',
]

const ping = (id: number | string, params: object = {}): string =>
  `${JSON.stringify({ jsonrpc: '2.0', id, method: 'plugin.ping', params })}\n`

/** What comes over stdin, right and wrong. */
export const messageChecks: readonly Check[] = [
  {
    name: 'messages/ids',
    expected: 'repeats numbers and texts as ids, exactly',
    run: async bench => {
      const wire = await bench.ready()
      for (const id of ['text', '7', 0, -3, 2 ** 40, 'ünïcode "\\', 'x'.repeat(256)])
        await wire.result('plugin.ping', {}, { id, timeoutMs: 5000 })
    },
  },
  {
    name: 'messages/unknown-method',
    expected: 'answers a method that does not exist with -32601 and serves on',
    run: async bench => {
      const wire = await bench.ready()
      for (const method of ['plugin.dance', 'toString', '__proto__', '']) await wire.refusal(method, {}, [RpcErrorCode.methodNotFound])
      await wire.mustBeAlive('an unknown method')
    },
  },
  {
    name: 'messages/foreign-method',
    expected: 'answers a method for another kind of plugin with -32601',
    run: async bench => {
      const { method, params } = foreignCallOf(bench.manifest)
      await (await bench.ready()).refusal(method, params, [RpcErrorCode.methodNotFound])
    },
  },
  {
    name: 'messages/unknown-notification',
    expected: 'ignores a notification that it does not know',
    run: async bench => {
      const wire = await bench.ready()
      wire.notify('plugin.dance', { to: 'music' })
      wire.notify('$/future', {})
      await wire.mustBeAlive('an unknown notification')
    },
  },
  {
    name: 'messages/unknown-fields',
    expected: 'ignores fields that it does not know',
    run: async bench => {
      const wire = await bench.ready()
      const answer = wire.expectAnswer('extra', 'plugin.ping')
      wire.send({ id: 'extra', method: 'plugin.ping', params: { future: { deep: [1] } }, meta: 'future' })
      const { error } = await answer
      expect(error === undefined, `plugin.ping was refused: ${brief(error)}`)
    },
  },
  {
    name: 'messages/params-that-are-no-object',
    expected: 'answers params that are no object with -32602, and takes absent ones as empty',
    run: async bench => {
      const wire = await bench.ready()
      for (const params of [[1], 'text', 5]) await wire.refusal('plugin.ping', params, [RpcErrorCode.invalidParams])
      await wire.result('plugin.ping')
    },
  },
  {
    name: 'messages/wrong-params',
    expected: 'answers params that lack everything, or are of wrong types, with -32602 and serves on',
    run: async bench => {
      const methods = methodsOf(bench.manifest)
      if (methods.length === 0) throw new Skip(`nothing is fixed yet for plugins of the interface ${bench.manifest.pluginInterface}`)
      const wire = await bench.ready()
      const wrong = {
        channelId: 5,
        settings: 'none',
        request: [],
        deliveryId: null,
        recipient: {},
        text: 1,
        path: 7,
        name: [],
        outputDir: false,
        generationId: 5,
        messages: 'none',
        texts: 'none',
        purpose: 1,
      }
      for (const method of methods) for (const params of [{}, wrong]) await wire.refusal(method, params, [RpcErrorCode.invalidParams])
      await wire.mustBeAlive('wrong params')
    },
  },
  {
    name: 'messages/stray-input',
    expected: 'skips lines that are no JSON, and JSON that is no message',
    run: async bench => {
      const wire = await bench.ready()
      for (const line of STRAY_INPUT) {
        wire.write(`${line}\n`)
        await wire.mustBeAlive(`the line ${brief(line)}`)
      }
      wire.write(Buffer.from([0xff, 0xfe, 0x00, 0x80, 0x0a]))
      await wire.mustBeAlive('a line that is no UTF-8')
    },
  },
  {
    name: 'messages/pieces',
    expected: 'puts a line together that comes byte by byte, and takes several that come at once',
    run: async bench => {
      const wire = await bench.ready()
      for (const id of ['pieces-1', 'pieces-2', 'pieces-3']) {
        await Promise.all([wire.expectAnswer(id, 'plugin.ping'), writeInPieces(wire, ping(id, { note: 'ü € 😀 \u2028' }))])
      }
      const ids = Array.from({ length: 20 }, (_, index) => `together-${index}`)
      const answers = ids.map(id => wire.expectAnswer(id, 'plugin.ping'))
      wire.write(ids.map(id => ping(id).replace('\n', '\r\n')).join(''))
      await Promise.all(answers)
    },
  },
  {
    name: 'messages/large',
    expected: 'takes a line of 4 MiB',
    run: async bench => {
      const wire = await bench.ready()
      await wire.result('plugin.ping', { note: 'x'.repeat(LARGE_BYTES) })
    },
  },
  {
    name: 'messages/oversized',
    expected: 'ends at a line of more than 16 MiB instead of keeping it',
    run: async bench => {
      const wire = await bench.fresh()
      await wire.handshake()
      const chunk = 'x'.repeat(1024 * 1024)
      wire.giveUp('too large')
      wire.write('{"jsonrpc":"2.0","id":"too large","method":"plugin.ping","params":{"note":"')
      for (let sent = 0; sent <= MAX_FRAME_BYTES; sent += chunk.length) wire.write(chunk)
      wire.write('"}}\n')
      await wire.endsWithin(GIVE_UP_MS, 'a line of more than 16 MiB')
    },
  },
  {
    name: 'messages/parallel',
    expected: `answers ${PARALLEL} requests that come together, each with its own id`,
    run: async bench => {
      const wire = await bench.ready()
      const call = callOf(bench.manifest)
      const asked = Array.from({ length: PARALLEL }, (_, index) =>
        index % 5 === 0 && call ? wire.ask(call.method, call.params) : wire.ask('plugin.ping', {}),
      )
      await Promise.all(asked)
    },
  },
  {
    name: 'messages/cancel-of-nothing',
    expected: 'ignores the cancellation of a call that it does not know',
    run: async bench => {
      const wire = await bench.ready()
      for (const id of [123_456, 'never', null, undefined]) wire.notify('$/cancel', { id })
      wire.notify('$/cancel', {})
      await wire.mustBeAlive('cancellations of nothing')
    },
  },
]

/** Byte by byte, with pauses inside of characters that are long enough for the plugin to read what came before. */
async function writeInPieces(wire: Wire, text: string): Promise<void> {
  const bytes = Buffer.from(text)
  for (const [index, byte] of bytes.entries()) {
    wire.write(Buffer.from([byte]))
    const isInsideOfCharacter = (bytes[index + 1] ?? 0) >> 6 === 0b10
    await sleep(isInsideOfCharacter ? PAUSE_MS : 0)
  }
}

/** A burst of calls that are given up at once; then the process must answer, and no call twice. */
export async function cancelSome(wire: Wire, method: string, params: (index: number) => Promise<unknown>): Promise<void> {
  for (let index = 0; index < 5; index++) wire.askAndCancel(method, await params(index))
  await wire.mustBeAlive('calls that were given up')
  await wire.quiet(300)
}
