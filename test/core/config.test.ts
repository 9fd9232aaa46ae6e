import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { z } from 'zod'
import { Config, setting } from '../../core/config.js'
import { watchConfig } from '../../core/configWatch.js'
import { createLog } from '../../core/log.js'
import { waitFor } from '../support/waitFor.js'

const enabled = setting.boolean('Service:Plugins:Enabled', { default: false, hot: true })
const allowlist = setting.list('Service:Plugins:Allowlist', { default: [], hot: true })
const port = setting.number('Service:Port', { default: 8080, max: 65535, integer: true })
const providers = setting.section(
  'Service:Models:Providers',
  z.record(z.string(), z.object({ BaseUrl: z.string(), Model: z.string().optional() })),
  {
    default: {},
    hot: true,
  },
)

describe('configuration', () => {
  let directory: string
  let file: string

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'config-test-'))
    file = join(directory, 'service.json')
  })
  afterEach(() => rm(directory, { recursive: true, force: true }))

  const write = (content: unknown): Promise<void> => writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))

  it('layers defaults, the command line, the file and the environment, later over earlier', async () => {
    assert.equal(new Config({ file }).bind(port).get(), 8080)
    const defaults = { 'Service:Port': '1' }
    assert.equal(new Config({ file, defaults }).bind(port).get(), 1)
    await write({ Service: { Port: 2 } })
    assert.equal(new Config({ file, defaults }).bind(port).get(), 2)
    assert.equal(new Config({ file, defaults, env: { Service__Port: '3' } }).bind(port).get(), 3)
  })

  it('reads nested and flat keys without regard to case, lists and booleans from text', async () => {
    await write({ 'service:plugins:enabled': true })
    const config = new Config({ file, env: { SERVICE__PLUGINS__ALLOWLIST: 'one, two,,three' } })
    assert.equal(config.bind(enabled).get(), true)
    assert.deepEqual(config.bind(allowlist).get(), ['one', 'two', 'three'])
  })

  it('merges a section key by key over the layers', async () => {
    await write({ Service: { Models: { Providers: { local: { BaseUrl: 'http://file', Model: 'm' } } } } })
    const config = new Config({ file, env: { Service__Models__Providers__local__BaseUrl: 'http://env' } })
    assert.deepEqual(config.bind(providers).get(), { local: { BaseUrl: 'http://env', Model: 'm' } })
  })

  it('names the key, its source and what is wrong', async () => {
    assert.throws(
      () => new Config({ file, env: { Service__Port: 'eighty' } }).bind(port),
      /Service:Port in the environment variable Service__Port is not valid/,
    )
    await write({ Service: { Port: 'eighty' } })
    assert.throws(() => new Config({ file }).bind(port), /Service:Port in the configuration file .*service\.json is not valid/)
    await write('{ "Service": ')
    assert.throws(() => new Config({ file }), /service\.json is not valid JSON/)
    await write([])
    assert.throws(() => new Config({ file }), /must hold a JSON object/)
  })

  it('tells of keys that nothing declares', async () => {
    await write({ Service: { Prot: 1 } })
    const config = new Config({ file })
    config.bind(port)
    assert.deepEqual(config.unknownKeys(), [`Service:Prot in the configuration file ${file}`])
  })

  it('writes a change atomically, for the owner only, keeping what else the file holds', async () => {
    await write({ Other: 1, 'Service:Plugins:Enabled': false, Service: { Port: 2 } })
    const config = new Config({ file })
    const value = config.bind(enabled)
    await value.set(true)
    assert.equal(value.get(), true)
    assert.deepEqual(JSON.parse(await readFile(file, 'utf8')), { Other: 1, Service: { Port: 2, Plugins: { Enabled: true } } })
    assert.equal((await stat(file)).mode & 0o777, 0o600)
    assert.equal(new Config({ file }).bind(enabled).get(), true)
  })

  it('keeps both of two changes made at once', async () => {
    const config = new Config({ file })
    await Promise.all([config.bind(enabled).set(true), config.bind(allowlist).set(['one'])])
    const again = new Config({ file })
    assert.equal(again.bind(enabled).get(), true)
    assert.deepEqual(again.bind(allowlist).get(), ['one'])
  })

  it('refuses to change what the environment pins, naming the variable', async () => {
    const value = new Config({ file, env: { Service__Plugins__Enabled: 'false' } }).bind(enabled)
    assert.match(value.pinnedBy() ?? '', /Service__Plugins__Enabled/)
    await assert.rejects(value.set(true), { code: 'conflict', message: /Service__Plugins__Enabled/ })
    await assert.rejects(readFile(file), { code: 'ENOENT' })
  })

  it('takes hot keys from a changed file, says which keys need a restart, and keeps the last good values of a bad file', async () => {
    const config = new Config({ file })
    const lines: string[] = []
    const unwatch = watchConfig(config, createLog({ level: 'info', write: line => lines.push(line) }))
    try {
      const seen: boolean[] = []
      const value = config.bind(enabled)
      config.bind(port)
      value.onChange(now => seen.push(now))
      await write({ Service: { Plugins: { Enabled: true }, Port: 9 } })
      await waitFor('the change', () => seen.length === 1)
      assert.equal(value.get(), true)
      assert.equal(config.bind(port).get(), 8080)
      await waitFor('word of the restart', () => lines.some(line => line.includes('Service:Port has changed')))

      await write('{ "Service": { "Plugins": { "Enabled": fal')
      await waitFor('word of the bad file', () => lines.some(line => line.includes('is not valid JSON') && line.includes('last good')))
      await write({ Service: { Plugins: { Enabled: 'perhaps' } } })
      await waitFor('word of the bad value', () =>
        lines.some(line => line.includes('Service:Plugins:Enabled') && line.includes('is not valid')),
      )
      assert.equal(value.get(), true)

      await write({ Service: { Plugins: { Enabled: false } } })
      await waitFor('the next good file', () => !value.get())
      assert.deepEqual(seen, [true, false])
    } finally {
      unwatch()
    }
  })

  it('does not let a key named __proto__ reach an object', async () => {
    await write('{"__proto__": {"polluted": true}, "Service": {"__proto__": {"polluted": true}, "Port": 5}}')
    const config = new Config({ file, env: { Service__Models____proto____BaseUrl: 'x' } })
    assert.equal(config.bind(port).get(), 5)
    assert.equal(({} as Record<string, unknown>).polluted, undefined)
  })
})
