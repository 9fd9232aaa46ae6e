import assert from 'node:assert/strict'
import { rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { defineEmbeddingProvider, defineModelProvider } from '../../sdk/index.js'
import { startPlugin, type RunningPlugin } from '../../sdk/testing.js'
import { plugin as echo } from '../fixtures/plugins/echo/echo.js'
import { plugin as hashing } from '../fixtures/plugins/hashing/hashing.js'

const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const asProcess = (name: string): Promise<RunningPlugin> =>
  startPlugin(fileURLToPath(new URL(`../fixtures/plugins/${name}/${name}.ts`, import.meta.url)), { nodeArgs: ['--import', tsx] })

describe('providers', () => {
  let plugin: RunningPlugin | undefined
  const started = async (starting: Promise<RunningPlugin>): Promise<RunningPlugin> => (plugin = await starting)
  afterEach(async () => {
    const ending = plugin
    plugin = undefined
    await ending?.stop()
  })

  for (const [how, start] of [
    ['in a process of its own', () => asProcess('echo')],
    ['in the process of its test', () => startPlugin(echo)],
  ] as const) {
    describe(`a model provider written with the SDK, ${how}`, () => {
      it('says its answer piece by piece, with the usage at the end', async () => {
        const running = await started(start())
        const answer = await running.generate('hello there')
        assert.deepEqual(answer.pieces, ['You said:', ' hello', ' there'])
        assert.equal(answer.text, 'You said: hello there')
        assert.deepEqual(answer.usage, { inputTokens: 3, outputTokens: 4 })
      })

      it('keeps answers apart that are made at the same time', async () => {
        const running = await started(start())
        const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => running.generate(`slowly 1 number ${index}`)))
        assert.deepEqual(
          answers.map(({ text }) => text),
          answers.map((_, index) => `You said: slowly 1 number ${index}`),
        )
      })

      it('asks for tools, and gets their results and its settings', async () => {
        const running = await started(start())
        const first = await running.generate('use time_now {"zone": "UTC"}')
        assert.deepEqual(first.toolCalls, [{ id: 'call_1', name: 'time_now', parameters: { zone: 'UTC' } }])
        assert.equal(
          (await running.generate({ messages: [{ role: 'tool', content: '"noon"', toolCallId: 'call_1' }] })).text,
          'the tool said: "noon"',
        )
        const described = {
          messages: [{ role: 'user' as const, content: 'describe yourself' }],
          model: 'large',
          settings: { apiKey: 'abc' },
        }
        assert.equal((await running.generate(described)).text, 'large, no system, 0 tools, a key of 3, 1 messages')
        assert.equal((await running.generate({ messages: [{ role: 'user', content: 'a' }], settings: { greeting: 'Hi' } })).text, 'Hi: a')
        assert.deepEqual(await running.listModels(), ['small', 'large'])
      })

      it('refuses in its own words, ends when it is given up, and is no plugin of another kind', async () => {
        const running = await started(start())
        await assert.rejects(running.generate({ model: 'refused', messages: [] }), {
          code: RpcErrorCode.rejected,
          message: /no such model/,
        })
        const abort = new AbortController()
        const slow = running.generate('slowly 10000 never', { signal: abort.signal })
        abort.abort()
        await assert.rejects(slow, { code: RpcErrorCode.cancelled })
        await assert.rejects(running.embed(['x']), { code: RpcErrorCode.methodNotFound })
        assert.equal((await running.generate('still here')).text, 'You said: still here')
      })
    })
  }

  describe('a model provider', () => {
    it('may answer with a text alone, and lists no models unless it names them', async () => {
      const running = await started(startPlugin(defineModelProvider({ generate: () => 'fine' })))
      assert.deepEqual(await running.generate('x'), { text: 'fine', pieces: [], toolCalls: [] })
      assert.deepEqual(await running.listModels(), [])
    })

    it('is told when its answer is larger than a message may be', async () => {
      const large = 'x'.repeat(17 * 1024 * 1024)
      const running = await started(
        startPlugin(
          defineModelProvider({
            generate: ({ say }) => {
              say('a')
              say(large)
              say('b')
            },
          }),
        ),
      )
      await assert.rejects(running.generate('x'), /bytes are more than a frame may have/)
    })

    it('is told when it says what is no text', async () => {
      const running = await started(startPlugin(defineModelProvider({ generate: ({ say }) => say(7 as unknown as string) })))
      await assert.rejects(running.generate('x'), { code: RpcErrorCode.internalError, message: /say\(\) takes a text/ })
    })
  })

  for (const [how, start] of [
    ['in a process of its own', () => asProcess('hashing')],
    ['in the process of its test', () => startPlugin(hashing)],
  ] as const)
    describe(`an embedding provider written with the SDK, ${how}`, () => {
      // It notes its calls where it runs: in this process, here.
      after(() => rm('calls', { force: true }))

      it('makes one vector of each text, the same one of the same text', async () => {
        const running = await started(start())
        const [cat, feline, car] = (await running.embed(['a cat', 'a feline', 'my car'])) as [Float32Array, Float32Array, Float32Array]
        assert.deepEqual([cat.length, feline, car.length], [256, cat, 256])
        assert.notDeepEqual(car, cat)
        assert.deepEqual(await running.embed(['a cat'], { purpose: 'query' }), [cat])
      })
    })

  describe('an embedding provider', () => {
    for (const [what, vectors, message] of [
      ['too few vectors', [], /one vector for each of the 1 texts/],
      ['vectors of two dimensions', [[1, 2], [1]], /of one dimension/],
      ['numbers that are none', [[1, NaN]], /finite numbers/],
    ] as const)
      it(`is told of ${what}`, async () => {
        const running = await started(startPlugin(defineEmbeddingProvider({ embed: () => vectors })))
        await assert.rejects(running.embed(vectors.length > 1 ? ['a', 'b'] : ['a']), { code: RpcErrorCode.internalError, message })
      })
  })
})
