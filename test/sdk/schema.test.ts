import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { fileURLToPath } from 'node:url'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { protocolChecks, type Check } from '../../sdk/protocolCheck.js'

const sdk = fileURLToPath(new URL('../../sdk', import.meta.url))
const generate = (folder: string): Promise<unknown> => promisify(execFile)(process.execPath, [join(sdk, 'schema.mjs'), '--check', folder])

interface Line {
  /** Sent to the plugin, or by it. */
  toPlugin: boolean
  message: { id?: number; method?: string; result?: unknown; error?: { code: number } }
}

const METHODS = ['HostRequests', 'PluginRequests', 'SharedNotifications', 'PluginNotifications'] as const

describe('the published protocol', () => {
  let schema: { $defs: Record<string, { properties: Record<string, unknown>; oneOf?: { const: number; title: string }[] }> }
  let guide: string
  let check: (ref: string) => Check

  before(async () => {
    schema = JSON.parse(await readFile(join(sdk, 'protocol.schema.json'), 'utf8')) as typeof schema
    guide = await readFile(join(sdk, 'PROTOCOL.md'), 'utf8')
    check = await protocolChecks()
  })

  /** The examples of the guide, in order. */
  const examples = (): Line[] =>
    [...guide.matchAll(/^ {4}(>>|<<) (.*)$/gm)].map(([, arrow, json = '']) => ({
      toPlugin: arrow === '>>',
      message: JSON.parse(json) as Line['message'],
    }))

  it('has a schema that is what its types give', () => generate(sdk))

  it('notices a type that was changed without it', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'schema-'))
    try {
      await cp(join(sdk, 'protocol.schema.json'), join(folder, 'protocol.schema.json'))
      const types = await readFile(join(sdk, 'protocol.ts'), 'utf8')
      await writeFile(join(folder, 'protocol.ts'), types)
      await generate(folder)
      await writeFile(join(folder, 'protocol.ts'), types.replace('accepted: number', 'accepted: string'))
      await assert.rejects(generate(folder), /is not what the types in protocol\.ts give: run npm run schema -w sdk/)
    } finally {
      await rm(folder, { recursive: true, force: true })
    }
  })

  it('tells right params and results from wrong ones, and lets unknown fields pass', () => {
    const initialize = check('HostRequests/properties/plugin.initialize/properties/params')
    const params = { protocolVersions: ['a'], plugin: { id: 'x', version: '1' }, host: { name: 'h', version: '1' }, dataDir: '/', new: 1 }
    assert.equal(initialize(params), undefined)
    assert.equal(initialize({ ...params, protocolVersions: [1] }), 'protocolVersions.0 must be string')
    const webhook = check('HostRequests/properties/channel.webhook/properties/result')
    const message = { id: '1', text: '', sender: { id: 'u' }, metadata: { chatId: 4, silent: true } }
    assert.equal(webhook({ messages: [message] }), undefined)
    assert.match(webhook({ messages: [{ ...message, metadata: { deep: {} } }] }) ?? '', /messages\.0\.metadata\.deep must be/)
    assert.ok(check('PluginNotifications/properties/log')({ level: 'fatal', message: 'x' }))
  })

  it('has every error code, with its name', () => {
    const codes = Object.fromEntries(schema.$defs.RpcErrorCode!.oneOf!.map(({ const: code, title }) => [title, code]))
    assert.deepEqual(codes, RpcErrorCode)
    for (const [name, code] of Object.entries(RpcErrorCode)) assert.match(guide, new RegExp(`\`${code}\` *\\| \`${name}\``))
  })

  it('is written up with an example of every method, in the direction in which it is sent', () => {
    const shown = (toPlugin: boolean): (string | undefined)[] =>
      examples().flatMap(line => (line.toPlugin === toPlugin ? [line.message.method] : []))
    for (const method of Object.keys(schema.$defs.HostRequests!.properties)) assert.ok(shown(true).includes(method), method)
    for (const list of ['PluginRequests', 'PluginNotifications'] as const)
      for (const method of Object.keys(schema.$defs[list]!.properties).filter(name => name !== '$/cancel'))
        assert.ok(shown(false).includes(method), method)
    assert.ok(shown(true).includes('$/cancel'))
  })

  it('is written up with examples that its schema takes, answers included', () => {
    const asked = new Map<string, string>()
    for (const { toPlugin, message } of examples()) {
      assert.equal(check(toPlugin ? 'MessageToPlugin' : 'MessageFromPlugin')(message), undefined, JSON.stringify(message))
      const { id, method, result } = message
      const list = METHODS.find(name => Object.hasOwn(schema.$defs[name]!.properties, method ?? ''))
      if (method !== undefined && id !== undefined) asked.set(`${toPlugin} ${id}`, `${list}/properties/${method}/properties`)
      if (result === undefined) continue
      const question = asked.get(`${!toPlugin} ${id}`)
      assert.ok(question, `nothing was asked with the id ${id}`)
      assert.equal(check(`${question}/result`)(result), undefined, JSON.stringify(message))
    }
  })
})
