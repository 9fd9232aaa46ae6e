import { brief, expect, type Bench, type Check } from './check.js'
import { cancelSome } from './messageChecks.js'
import { needSettings, PROVIDER_MS, resultOf } from './providerAnswers.js'
import type { Wire } from './wire.js'

const MAX_DIMENSION = 4096
/** What a gateway gives at most at once: texts, and characters of each. */
const MAX_TEXTS = 32
const MAX_LENGTH = 8000
const PARALLEL = 4
/** The same text makes the same vector, up to what rounding and a busy graphics card make of it. */
const SAME = 0.999
const TEXTS = ['a cat', 'my car', 'Grüße, señor: ½ € 😀', 'line\nline', 'x']
const LONG = 'the quick brown fox jumps over the lazy dog '.repeat(200).slice(0, MAX_LENGTH)

const paramsOf = ({ settings }: Bench, texts: readonly string[], purpose = 'document'): object => ({ texts, purpose, settings })

async function embed(bench: Bench, wire: Wire, texts: readonly string[], purpose?: string): Promise<Float32Array[]> {
  needSettings(bench)
  const answer = await wire.ask('embedding.embed', paramsOf(bench, texts, purpose), { timeoutMs: PROVIDER_MS })
  const { vectors, minSimilarity } = resultOf(answer, 'embedding.embed')
  expect(Array.isArray(vectors) && vectors.length === texts.length, `${texts.length} texts, but the vectors are ${brief(vectors)}`)
  const inRange = minSimilarity === undefined || (typeof minSimilarity === 'number' && minSimilarity >= -1 && minSimilarity <= 1)
  expect(inRange, `minSimilarity is ${brief(minSimilarity)}, no cosine`)
  const decoded = (vectors as unknown[]).map(decode)
  expect(new Set(decoded.map(({ length }) => length)).size === 1, 'the vectors of one answer have several dimensions')
  return decoded
}

function decode(text: unknown): Float32Array {
  const bytes = typeof text === 'string' ? Buffer.from(text, 'base64') : Buffer.alloc(0)
  const isWhole = bytes.length > 0 && bytes.length % 4 === 0 && bytes.toString('base64') === text
  expect(isWhole, `a vector is no base64 of 32-bit floats: ${brief(text)}`)
  const dimension = bytes.length / 4
  expect(dimension <= MAX_DIMENSION, `a vector has ${dimension} dimensions, more than ${MAX_DIMENSION}`)
  const vector = Float32Array.from({ length: dimension }, (_, index) => bytes.readFloatLE(index * 4))
  expect(vector.every(Number.isFinite), 'a vector holds what is no finite number')
  expect(
    vector.some(value => value !== 0),
    'a vector is all zeros: no text is like it',
  )
  return vector
}

function cosine(a: Float32Array, b: Float32Array): number {
  const product = (x: Float32Array, y: Float32Array): number => x.reduce((sum, value, index) => sum + value * (y[index] ?? 0), 0)
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b))
}

/** What an embedding provider has to do. */
export const embeddingChecks: readonly Check[] = [
  {
    name: 'embedding/vectors',
    expected: `makes one vector of each text: base64 of 32-bit floats, of one dimension of at most ${MAX_DIMENSION}, finite, not all zeros`,
    run: async bench => {
      await embed(bench, await bench.ready(), TEXTS)
    },
  },
  {
    name: 'embedding/purposes',
    expected: 'makes vectors of one dimension for what is searched for and what is found',
    run: async bench => {
      const wire = await bench.ready()
      const [[query], [document]] = [await embed(bench, wire, ['a cat'], 'query'), await embed(bench, wire, ['a cat'], 'document')]
      expect(query?.length === document?.length, `a query has ${String(query?.length)} dimensions, a document ${String(document?.length)}`)
    },
  },
  {
    name: 'embedding/same',
    expected: 'makes the same vector of the same text, whatever else it is given with',
    run: async bench => {
      const wire = await bench.ready()
      const alone = await embed(bench, wire, ['a cat'])
      const among = await embed(bench, wire, ['my car', 'a cat'])
      const likeness = alone[0] && among[1] ? cosine(alone[0], among[1]) : 0
      expect(likeness >= SAME, `their cosine is ${likeness.toFixed(4)}: vectors that are compared later must not depend on chance`)
    },
  },
  {
    name: 'embedding/batch',
    expected: `takes ${MAX_TEXTS} texts of ${MAX_LENGTH} characters`,
    run: async bench => {
      await embed(
        bench,
        await bench.ready(),
        Array.from({ length: MAX_TEXTS }, (_, index) => `${index} ${LONG}`.slice(0, MAX_LENGTH)),
      )
    },
  },
  {
    name: 'embedding/parallel',
    expected: `makes vectors for ${PARALLEL} calls at once, and answers pings meanwhile`,
    run: async bench => {
      const wire = await bench.ready()
      const asked = Array.from({ length: PARALLEL }, () => embed(bench, wire, TEXTS))
      await Promise.all([Promise.all(asked), wire.mustBeAlive(`${PARALLEL} calls`)])
    },
  },
  {
    name: 'embedding/cancel',
    expected: 'lives through calls that are given up, and makes the next vectors',
    run: async bench => {
      needSettings(bench)
      const wire = await bench.ready()
      await cancelSome(wire, 'embedding.embed', () => Promise.resolve(paramsOf(bench, TEXTS)))
      await embed(bench, wire, TEXTS)
    },
  },
]
