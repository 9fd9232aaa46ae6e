/** The files of a new model provider. */
export const modelFiles = (name: string): Record<string, unknown> => ({
  'manifest.json': {
    ...{ name, version: '0.1.0', description: `Lets agents use the models of ${name}.`, type: 'plugin', pluginInterface: 'ModelProvider' },
    entrypoint: 'src/index.ts',
    settings: [
      { name: 'apiKey', type: 'secret', displayName: 'API key', required: true },
      { name: 'apiUrl', type: 'string', displayName: 'API address', required: true, default: 'https://api.example.com' },
    ],
    permissions: { net: ['api.example.com:443'] },
  },
  'src/index.ts': source,
  'test/plugin.test.mjs': test,
  'README.md': readme(name),
})

const source = `import { defineModelProvider, rejected, temporary } from '@agent-gateway/sdk'

export default defineModelProvider({
  // The settings stand in manifest.json too: as const, they give \`settings\` its type.
  manifest: {
    settings: [
      { name: 'apiKey', required: true },
      { name: 'apiUrl', required: true, default: 'https://api.example.com' },
    ],
  },

  // The default first. Agents name one as <plugin>/<model>.
  models: ['small', 'large'],

  // Answers once. This API is given the conversation and answers with the text, as it comes.
  async generate({ model, system, messages, settings, say, signal }) {
    const response = await fetch(new URL('/generate', settings.apiUrl), {
      method: 'POST',
      headers: { authorization: \`Bearer \${settings.apiKey}\`, 'content-type': 'application/json' },
      body: JSON.stringify({ model: model || 'small', system, messages }),
      signal,
    })
    if (response.status === 429 || response.status >= 500) throw temporary(\`The API answered \${response.status}\`)
    if (!response.ok || !response.body) throw rejected(\`The API refused the question with \${response.status}\`)
    const decoder = new TextDecoder()
    for await (const piece of response.body) say(decoder.decode(piece, { stream: true }))
  },
})
`

const test = `import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { startPlugin, testConformance } from '@agent-gateway/sdk/testing'

let plugin
let api
let apiUrl
before(async () => {
  plugin = await startPlugin(new URL('..', import.meta.url))
  // Stands for the API: repeats the question, in two pieces, for those who have the key.
  api = createServer(async (request, response) => {
    const { model, messages } = JSON.parse(Buffer.concat(await request.toArray()).toString())
    if (request.headers.authorization !== 'Bearer abc') return response.writeHead(401).end()
    if (model === 'busy') return response.writeHead(429).end()
    response.write(\`\${model} heard: \`)
    response.end(messages.at(-1).content)
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => api.once('listening', resolve))
  apiUrl = \`http://127.0.0.1:\${api.address().port}\`
})
after(async () => {
  await plugin.stop()
  api.close()
})

const ask = (model, apiKey = 'abc') =>
  plugin.generate({ model, messages: [{ role: 'user', content: 'hello' }], settings: { apiKey, apiUrl } })

test('answers as the API does, with the default model or another', async () => {
  assert.equal((await ask('')).text, 'small heard: hello')
  assert.equal((await ask('large')).text, 'large heard: hello')
})

test('tells what is refused for good from what may work later', async () => {
  await assert.rejects(ask('', 'wrong'), { retryable: false, message: /refused the question with 401/ })
  await assert.rejects(ask('busy'), { retryable: true })
})

test('lists its models', async () => {
  assert.deepEqual(await plugin.listModels({ apiKey: 'abc' }), ['small', 'large'])
})

test('does what the plugin protocol says', async () => {
  const { checks } = await testConformance(new URL('..', import.meta.url), { settings: { apiKey: 'abc', apiUrl } })
  assert.deepEqual(checks.filter(({ outcome }) => outcome !== 'pass'), [])
})
`

const readme = (name: string): string => `# ${name}

A model provider for Agent Gateway. Gateways use model providers while \`Service:Plugins:Experimental\` is on.

    npm install
    npm test          # builds publish/${name}.cjs and starts it as the gateway does
    npm run dev       # runs it in a live gateway and reloads it on save
    npm run build     # writes ${name}-0.1.0.service-plugin

Install it by copying this folder, or the \`.service-plugin\` file, into one of the gateway's plugin directories. Agents
then name the model \`${name}/small\`. How it answers is in \`src/index.ts\`; its settings, which the gateway's
configuration gives, are in \`manifest.json\`.
`
