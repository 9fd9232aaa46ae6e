import assert from 'node:assert/strict'
import { memory as memoryRef, type Memory } from '../../../plugins/memory/contract.js'
import { waitFor } from '../../support/waitFor.js'
import { startProviders, type Providers } from './installed.js'

const alice = { tenant: null, userId: 'usr_alice' }
const bob = { tenant: null, userId: 'usr_bob' }

describe('a plugin as an embedding provider', () => {
  let gateway: Providers
  let memory: Memory

  afterEach(() => gateway.stop())

  const start = async (options: Parameters<typeof startProviders>[0] = {}): Promise<void> => {
    gateway = await startProviders(options)
    memory = gateway.service(memoryRef)
  }
  const texts = async (query: string, owner = alice): Promise<string[]> => (await memory.search(owner, query, 10)).map(({ text }) => text)
  const remember = async (...all: string[]): Promise<void> => {
    for (const text of all) await memory.remember(alice, text)
  }

  it('lets memory find what is meant, beside what is said, for its owner alone', async () => {
    await start()
    await remember('My kitten is called Minka', 'The automobile is in the garage', 'Tuesdays are for swimming')
    assert.deepEqual(await texts('feline'), [])
    const plugin = await gateway.add('hashing', 'hashing', 'EmbeddingProvider')
    await memory.remember(bob, 'Tom is a cat')
    assert.deepEqual(await texts('feline'), ['My kitten is called Minka'])
    assert.deepEqual(await texts('feline', bob), ['Tom is a cat'])
    await remember('The physician comes on Monday')
    assert.deepEqual(await texts('doctor'), ['The physician comes on Monday'])
    assert.deepEqual(await texts('swim'), ['Tuesdays are for swimming'], 'word beginnings are found as before')
    assert.equal((await memory.search(alice, 'kitten', 10))[0]!.text, 'My kitten is called Minka')
    assert.deepEqual(await texts('elephant'), [])
    const embedded = (await plugin.noted('calls')).filter(line => line.startsWith('document'))
    assert.equal(embedded.length, 5, 'each entry once')
  })

  it('keeps its vectors over a restart of the gateway, and makes them anew in another version or with other settings', async () => {
    const settings = [{ name: 'dialect' }, { name: 'apiKey', type: 'secret' }]
    await start()
    const plugin = await gateway.add('scripted', 'scripted', 'EmbeddingProvider', { settings })
    await remember('a cat', 'a car', 'a tree')
    const documents = async (): Promise<string[]> => (await plugin.noted('embedded')).filter(line => line.includes(' document '))
    assert.deepEqual(await texts('feline'), ['a cat'])
    assert.equal((await documents()).length, 1)
    await gateway.stop({ keep: true })

    await start({ dataDir: gateway.dataDir })
    await waitFor(
      'the plugin in the new gateway',
      async () => (await gateway.call('GET', '/plugins/scripted', { token: gateway.token })).body.state === 'ready',
    )
    assert.deepEqual(await texts('feline'), ['a cat'])
    assert.equal((await documents()).length, 1)

    await gateway.add('scripted', 'scripted', 'EmbeddingProvider', { settings, version: '2.0.0' })
    assert.deepEqual(await texts('feline'), ['a cat'])
    assert.deepEqual(
      (await documents()).map(line => line.slice(0, 5)),
      ['1.0.0', '2.0.0'],
    )

    await gateway.configure({ Plugins: { Settings: { scripted: { apiKey: 'sk-another-key' } } } })
    assert.deepEqual(await texts('feline'), ['a cat'])
    assert.equal((await documents()).length, 2, 'a key changes no vectors')
    await gateway.configure({ Plugins: { Settings: { scripted: { dialect: 'Low German' } } } })
    assert.deepEqual(await texts('feline'), ['a cat'])
    assert.equal((await documents()).length, 3)
  })

  it('is the one that the configuration names, else the first; nobody while the experiment is off or it is stopped', async () => {
    await start()
    const scripted = await gateway.add('scripted', 'scripted', 'EmbeddingProvider')
    await remember('a cat')
    assert.deepEqual(await texts('feline'), ['a cat'])
    const hashing = await gateway.add('hashing', 'hashing', 'EmbeddingProvider')
    await texts('feline')
    assert.equal((await hashing.noted('calls')).length, 2)
    await gateway.configure({ Memory: { EmbeddingProvider: 'Scripted' } })
    const asked = (await scripted.noted('embedded')).length
    assert.deepEqual(await texts('feline'), ['a cat'])
    assert.ok((await scripted.noted('embedded')).length > asked)
    await scripted.act('stop')
    assert.deepEqual(await texts('feline'), [])
    await gateway.configure({})
    assert.deepEqual(await texts('feline'), ['a cat'])
    await gateway.configure({ Plugins: { Experimental: false } })
    assert.deepEqual([await texts('feline'), await texts('cat')], [[], ['a cat']])
  })

  it('never hides what full text search finds, whatever it answers, and is used again once it is well', async () => {
    await start()
    const plugin = await gateway.add('scripted', 'scripted', 'EmbeddingProvider')
    await remember('a cat')
    const modes = [
      'too-few',
      'no-list',
      'not-base64',
      'half-a-float',
      'not-a-number',
      'infinite',
      'zeros',
      'many-dimensions',
      'bad-similarity',
    ]
    for (const [index, mode] of [...modes, 'fail'].entries()) {
      await plugin.leave('mode', mode)
      assert.deepEqual(await texts(`cat ${index}`), ['a cat'], mode)
      assert.deepEqual(await texts(`feline ${index}`), [], mode)
    }
    await plugin.take('mode')
    await remember('another cat')
    assert.deepEqual(await texts('feline'), ['another cat'], 'what failed is left alone for a while')
    const lines = gateway
      .logged()
      .split('\n')
      .filter(line => line.includes('memory is searched by its words alone'))
    assert.equal(lines.length, 1, 'said once a minute')
    assert.match(lines[0]!, /the plugin scripted: it made a mistake: it has to answer with one vector for each of 1 texts/)
    assert.equal((await gateway.call('GET', '/plugins/scripted', { token: gateway.token })).body.restarts, 0)
  })

  for (const mode of ['crash', 'huge', 'other-dimension', 'mixed'])
    it(`costs nothing but the meaning when it goes wrong with documents: ${mode}`, async () => {
      await start()
      const plugin = await gateway.add('scripted', 'scripted', 'EmbeddingProvider')
      await remember('a cat', 'a car')
      await plugin.leave('mode', mode)
      assert.deepEqual(await texts('cat'), ['a cat'])
      assert.match(gateway.logged(), /memory is searched by its words alone/)
      await plugin.take('mode')
      await plugin.until('ready')
      await waitFor('the meaning again', async () => (await texts('feline here')).length === 1)
    })

  it('holds up no search when it is slow; what it makes in the meantime is used by the next', async () => {
    await start()
    const plugin = await gateway.add('scripted', 'scripted', 'EmbeddingProvider')
    await remember('a cat')
    await plugin.leave('mode', 'slow-documents')
    assert.deepEqual(await texts('cat'), ['a cat'])
    await plugin.leave('go')
    await waitFor('the meaning', async () => (await texts('feline')).length === 1)
    await plugin.leave('mode', 'hang')
    assert.deepEqual(await texts('a cat again'), ['a cat'])
  })

  it('is not asked again for an entry or a query that ends its process', async () => {
    await start()
    const plugin = await gateway.add('scripted', 'scripted', 'EmbeddingProvider')
    await plugin.leave('mode', 'crash-on-poison')
    await remember('a cat', 'the poison', 'a car')
    await waitFor('the good ones to be found', async () => {
      await plugin.until('ready')
      return (await texts('feline')).includes('a cat')
    })
    assert.deepEqual(await texts('poison'), ['the poison'])
    const restarts = async (): Promise<number> => (await gateway.call('GET', '/plugins/scripted', { token: gateway.token })).body.restarts
    await waitFor('the end of its batch, of it alone, and of the query', async () => (await restarts()) === 3)
    await plugin.until('ready')
    for (let time = 0; time < 5; time += 1) assert.deepEqual([await texts('poison'), await texts('feline')], [['the poison'], ['a cat']])
    assert.equal(await restarts(), 3)
  })

  it('takes a large memory in batches of at most 32', async () => {
    await start()
    await Promise.all(
      Array.from({ length: 300 }, (_, index) => memory.remember(alice, `entry ${index}${index === 7 ? ' about a cat' : ''}`)),
    )
    const plugin = await gateway.add('scripted', 'scripted', 'EmbeddingProvider')
    await waitFor('all of them', async () => (await texts('feline')).some(text => text.includes('a cat')))
    const sizes = (await plugin.noted('embedded')).filter(line => line.includes(' document ')).map(line => line.split(' | ').length)
    assert.ok(Math.max(...sizes) <= 32)
    assert.equal(
      sizes.reduce((sum, size) => sum + size),
      300,
    )
  })
})
