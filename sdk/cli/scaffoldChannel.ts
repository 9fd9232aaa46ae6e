/** The files of a new channel adapter. */
export const channelFiles = (name: string): Record<string, unknown> => ({
  'manifest.json': {
    ...{ name, version: '0.1.0', description: `Connects ${name} to Agent Gateway.`, type: 'plugin', pluginInterface: 'ChannelAdapter' },
    ...{ channelType: name.slice(0, 32), entrypoint: 'src/index.ts', recipientMetadataKey: 'chatId' },
    settings: [
      { name: 'apiToken', type: 'secret', displayName: 'API token', required: true },
      { name: 'apiUrl', type: 'string', displayName: 'API address', required: true, default: 'https://api.example.com' },
    ],
    permissions: { net: ['api.example.com:443'] },
  },
  'src/index.ts': source,
  'test/plugin.test.mjs': test,
  'README.md': readme(name),
})

const source = `import { defineChannelAdapter, rejected, temporary, webhookBytes } from '@agent-gateway/sdk'
import { timingSafeEqual } from 'node:crypto'

/** What the platform posts. */
interface Update {
  id: string
  chatId: string
  userId: string
  text: string
}

export default defineChannelAdapter({
  // The settings stand in manifest.json too: as const, they give \`settings\` its type.
  manifest: {
    recipientMetadataKey: 'chatId',
    settings: [
      { name: 'apiToken', required: true },
      { name: 'apiUrl', required: true, default: 'https://api.example.com' },
    ],
  },

  connect({ settings }) {
    return {
      // The platform posts a message to the channel's webhook URL.
      webhook(request) {
        if (!isFromPlatform(request.headers['x-api-token'], settings.apiToken)) return { response: { status: 401 } }
        const update = JSON.parse(webhookBytes(request).toString()) as Update
        return {
          messages: [{ id: update.id, text: update.text, sender: { id: update.userId }, metadata: { chatId: update.chatId } }],
        }
      },

      // The agent's reply goes back to the chat the message came from.
      async send({ recipient, text, deliveryId }, { signal }) {
        const response = await fetch(new URL('/messages', settings.apiUrl), {
          method: 'POST',
          headers: { authorization: \`Bearer \${settings.apiToken}\`, 'content-type': 'application/json', 'idempotency-key': deliveryId },
          body: JSON.stringify({ chatId: recipient, text }),
          signal,
        })
        if (response.status === 429 || response.status >= 500) throw temporary(\`The platform answered \${response.status}\`)
        if (!response.ok) throw rejected(\`The platform refused the message with \${response.status}\`)
      },
    }
  },
})

function isFromPlatform(given: string | undefined, expected: string): boolean {
  const [a, b] = [Buffer.from(given ?? ''), Buffer.from(expected)]
  return a.length === b.length && timingSafeEqual(a, b)
}
`

const test = `import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import { after, before, test } from 'node:test'
import { startPlugin, testConformance } from '@agent-gateway/sdk/testing'

let plugin
before(async () => {
  plugin = await startPlugin(new URL('..', import.meta.url))
})
after(() => plugin.stop())

const update = { id: 'm1', chatId: '42', userId: 'u1', text: 'hello' }

test('takes a message from the webhook', async () => {
  const channel = await plugin.connect({ settings: { apiToken: 'abc' } })
  await channel.webhook({ headers: { 'X-Api-Token': 'abc' }, body: update })
  assert.deepEqual(channel.messages, [{ id: 'm1', text: 'hello', sender: { id: 'u1' }, metadata: { chatId: '42' } }])
})

test('refuses a webhook without the token', async () => {
  const channel = await plugin.connect({ settings: { apiToken: 'abc' } })
  const { response } = await channel.webhook({ body: update })
  assert.equal(response.status, 401)
})

test('sends a reply to the chat', async () => {
  const received = []
  const server = createServer(async (request, response) => {
    received.push(JSON.parse(Buffer.concat(await request.toArray()).toString()))
    response.end()
  }).listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  const channel = await plugin.connect({ settings: { apiToken: 'abc', apiUrl: \`http://127.0.0.1:\${server.address().port}\` } })
  await channel.send({ recipient: '42', text: 'hi' })
  server.close()
  assert.deepEqual(received, [{ chatId: '42', text: 'hi' }])
})

test('does what the plugin protocol says', async () => {
  const { checks } = await testConformance(new URL('..', import.meta.url), { settings: { apiToken: 'abc', apiUrl: '{sink}' } })
  assert.deepEqual(checks.filter(({ outcome }) => outcome === 'fail'), [])
})
`

const readme = (name: string): string => `# ${name}

A channel adapter for Agent Gateway.

    npm install
    npm test          # builds publish/${name}.cjs and starts it as the gateway does
    npm run dev       # runs it in a live gateway and reloads it on save
    npm run build     # writes ${name}-0.1.0.service-plugin

Install it by copying this folder, or the \`.service-plugin\` file, into one of the gateway's plugin directories.
What the plugin does is in \`src/index.ts\`; its settings form is in \`manifest.json\`.
`
