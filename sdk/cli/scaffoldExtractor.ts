/** The files of a new document extractor. */
export const extractorFiles = (name: string): Record<string, unknown> => ({
  'manifest.json': {
    ...{
      name,
      version: '0.1.0',
      description: `Reads .${name} files for Agent Gateway.`,
      type: 'plugin',
      pluginInterface: 'DocumentExtractor',
    },
    ...{ entrypoint: 'src/index.ts', supportedExtensions: [`.${name}`], permissions: { net: [] } },
  },
  'src/index.ts': source,
  'test/plugin.test.mjs': test(name),
  'README.md': readme(name),
})

const source = `import { defineDocumentExtractor, rejected } from '@agent-gateway/sdk'

export default defineDocumentExtractor({
  // Reads one document. Replace this by what the format needs; the text may be of any length.
  async extract({ name, read }) {
    const text = new TextDecoder('utf-8').decode(await read())
    if (text.trim() === '') throw rejected(\`\${name} is empty\`)
    return { text, title: text.split('\\n', 1)[0]?.trim() ?? name }
  },
})
`

const test = (name: string): string => `import assert from 'node:assert/strict'
import { after, before, test } from 'node:test'
import { startPlugin, testConformance } from '@agent-gateway/sdk/testing'

let plugin
before(async () => {
  plugin = await startPlugin(new URL('..', import.meta.url))
})
after(() => plugin.stop())

test('reads a document', async () => {
  const { text, title } = await plugin.extract({ name: 'notes.${name}', content: 'First line\\nSecond line' })
  assert.deepEqual({ text, title }, { text: 'First line\\nSecond line', title: 'First line' })
})

test('refuses an empty one', async () => {
  await assert.rejects(plugin.extract({ name: 'empty.${name}', content: ' ' }), /empty\\.${name} is empty/)
})

test('does what the plugin protocol says', async () => {
  const { checks } = await testConformance(new URL('..', import.meta.url))
  assert.deepEqual(checks.filter(({ outcome }) => outcome === 'fail'), [])
})
`

const readme = (name: string): string => `# ${name}

A document extractor for Agent Gateway.

    npm install
    npm test          # builds publish/${name}.cjs and starts it as the gateway does
    npm run dev       # runs it in a live gateway and reloads it on save
    npm run build     # writes ${name}-0.1.0.service-plugin

Install it by copying this folder, or the \`.service-plugin\` file, into one of the gateway's plugin directories.
What it reads is in \`src/index.ts\`; for which files it is asked is in \`manifest.json\`.
`
