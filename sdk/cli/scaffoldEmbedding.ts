/** The files of a new embedding provider. */
export const embeddingFiles = (name: string): Record<string, unknown> => ({
  'manifest.json': {
    ...{ name, version: '0.1.0', description: `Makes vectors of texts for the memory of Agent Gateway.`, type: 'plugin' },
    ...{ pluginInterface: 'EmbeddingProvider', entrypoint: 'src/index.ts', permissions: { net: [] } },
  },
  'src/index.ts': source,
  'test/plugin.test.mjs': test,
  'README.md': readme(name),
})

const source = `import { defineEmbeddingProvider } from '@agent-gateway/sdk'

const DIMENSION = 512

export default defineEmbeddingProvider({
  // The cosine from which on two texts have something to do with each other: know your model.
  minSimilarity: 0.4,

  // One vector for each text. Another way of making them is another version of the plugin.
  embed: ({ texts }) => texts.map(vectorOf),
})

/** Counts groups of three letters: it finds words that are spelt alike. Replace it by what a model makes, which finds what is meant. */
function vectorOf(text: string): Float32Array {
  const vector = new Float32Array(DIMENSION)
  const letters = \` \${text.toLowerCase()} \`.padEnd(3)
  for (let at = 0; at + 3 <= letters.length; at++) {
    let place = 0
    for (const letter of letters.slice(at, at + 3)) place = (place * 31 + letter.charCodeAt(0)) % DIMENSION
    vector[place] = (vector[place] ?? 0) + 1
  }
  return vector
}
`

const test = `import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlugin, testConformance } from '@agent-gateway/sdk/testing'

let plugin
before(async () => {
  plugin = await startPlugin(new URL('..', import.meta.url))
})
after(() => plugin.stop())

const cosine = (a, b) => {
  const product = (x, y) => x.reduce((sum, value, index) => sum + value * y[index], 0)
  return product(a, b) / Math.sqrt(product(a, a) * product(b, b))
}

test('finds like texts alike, and others not', async () => {
  const [query] = await plugin.embed(['green tea'], { purpose: 'query' })
  const [near, far] = await plugin.embed(['a cup of green tea', 'the motor of my car'])
  assert.ok(cosine(query, near) > 0.4)
  assert.ok(cosine(query, far) < 0.4)
})

test('does what the plugin protocol says', async () => {
  const { checks } = await testConformance(new URL('..', import.meta.url))
  assert.deepEqual(checks.filter(({ outcome }) => outcome !== 'pass'), [])
})
`

const readme = (name: string): string => `# ${name}

An embedding provider for Agent Gateway. Gateways use embedding providers while \`Service:Plugins:Experimental\` is on.

    npm install
    npm test          # builds publish/${name}.cjs and starts it as the gateway does
    npm run dev       # runs it in a live gateway and reloads it on save
    npm run build     # writes ${name}-0.1.0.service-plugin

Install it by copying this folder, or the \`.service-plugin\` file, into one of the gateway's plugin directories. How it
makes vectors is in \`src/index.ts\`: raise the version in \`manifest.json\` when that changes, and the gateway makes all
vectors anew.
`
