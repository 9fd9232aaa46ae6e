import { randomUUID } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { RpcErrorCode, type GenerateMessage, type GenerateResult } from '../protocol.js'
import { brief, expect, type Bench, type Check } from './check.js'
import { cancelSome } from './messageChecks.js'
import { needSettings, PROVIDER_MS, resultOf } from './providerAnswers.js'
import type { Wire } from './wire.js'

const PARALLEL = 4
const MAX_CHARACTERS = 1024 * 1024
const MAX_MODELS = 200
const MODEL_NAME = /^\S{1,128}$/
const TOOL = { name: 'time_now', description: 'The time of day', parameters: { type: 'object', properties: {} } }

/** The sample's text is the question. */
async function question({ sample }: Bench): Promise<GenerateMessage[]> {
  return [{ role: 'user', content: sample === undefined ? 'Say hello.' : await readFile(sample, 'utf8') }]
}

/** A question with a name that no other has; what is said to it is kept. */
async function ask(bench: Bench, wire: Wire, more: object = {}): Promise<{ params: object; said: () => string }> {
  const generationId = randomUUID()
  const params = { generationId, model: '', messages: await question(bench), settings: bench.settings, ...more }
  return { params, said: wire.collect(generationId) }
}

/** One answer: what was said piece by piece, then what came with the result. */
async function answer(bench: Bench, wire: Wire, more: object = {}): Promise<{ text: string; toolCalls: unknown[] }> {
  needSettings(bench)
  const { params, said } = await ask(bench, wire, more)
  const { text = '', toolCalls = [] } = resultOf(
    await wire.ask('model.generate', params, { timeoutMs: PROVIDER_MS }),
    'model.generate',
  ) as GenerateResult
  const whole = said() + text
  expect(whole.length <= MAX_CHARACTERS, `its answer has ${whole.length} characters, more than ${MAX_CHARACTERS}`)
  expect(whole.trim() !== '' || toolCalls.length > 0, 'its answer is blank and asks for no tool')
  return { text: whole, toolCalls }
}

/** What a model provider has to do. */
export const modelChecks: readonly Check[] = [
  {
    name: 'model/list',
    expected: `lists at most ${MAX_MODELS} models, each a name without white space`,
    run: async bench => {
      needSettings(bench)
      const wire = await bench.ready()
      const { models } = resultOf(await wire.ask('model.list', { settings: bench.settings }, { timeoutMs: PROVIDER_MS }), 'model.list')
      expect(Array.isArray(models) && models.length <= MAX_MODELS, `it listed ${brief(models)}`)
      const wrong = (models as unknown[]).find(model => typeof model !== 'string' || !MODEL_NAME.test(model))
      expect(wrong === undefined, `${brief(wrong)} is no name of 1 to 128 characters without white space`)
      expect(new Set(models as unknown[]).size === (models as unknown[]).length, `it lists a model twice: ${brief(models)}`)
    },
  },
  {
    name: 'model/answer',
    expected: 'answers a question with a text, or asks for tools',
    run: async bench => {
      await answer(bench, await bench.ready())
    },
  },
  {
    name: 'model/no-tools',
    expected: 'answers with a text when the tool choice is none, whatever tools there are',
    run: async bench => {
      const { text, toolCalls } = await answer(bench, await bench.ready(), { tools: [TOOL], toolChoice: 'none' })
      expect(toolCalls.length === 0, `it asked for ${brief(toolCalls)}`)
      expect(text.trim() !== '', 'its answer is blank')
    },
  },
  {
    name: 'model/tool-result',
    expected: 'goes on from the result of a tool that was asked for',
    run: async bench => {
      const messages: GenerateMessage[] = [
        { role: 'user', content: 'What time is it?' },
        { role: 'assistant', content: '', toolCalls: [{ id: 'call_1', name: TOOL.name, parameters: {} }] },
        { role: 'tool', content: '"09:30"', toolCallId: 'call_1' },
      ]
      await answer(bench, await bench.ready(), { messages, tools: [TOOL], system: 'Be brief.' })
    },
  },
  {
    name: 'model/parallel',
    expected: `answers ${PARALLEL} questions at once, and pings meanwhile`,
    run: async bench => {
      const wire = await bench.ready()
      const asked = Array.from({ length: PARALLEL }, () => answer(bench, wire))
      await Promise.all([Promise.all(asked), wire.mustBeAlive(`${PARALLEL} questions were asked`)])
    },
  },
  {
    name: 'model/unknown-model',
    expected: 'answers for a model that it does not know as it can, or refuses it; never a mistake of the program',
    run: async bench => {
      needSettings(bench)
      const wire = await bench.ready()
      const { params } = await ask(bench, wire, { model: 'no-such-model' })
      const { error } = await wire.ask('model.generate', params, { timeoutMs: PROVIDER_MS })
      expect(error?.code !== RpcErrorCode.internalError, `it failed with ${brief(error?.message)}: refuse it with rejected`)
      await wire.mustBeAlive('a model that it does not know')
    },
  },
  {
    name: 'model/cancel',
    expected: 'lives through answers that are given up, and answers the next question',
    run: async bench => {
      needSettings(bench)
      const wire = await bench.ready()
      await cancelSome(wire, 'model.generate', async () => (await ask(bench, wire)).params)
      await answer(bench, wire)
    },
  },
]
