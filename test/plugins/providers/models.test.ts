import assert from 'node:assert/strict'
import { waitFor } from '../../support/waitFor.js'
import type { Speaker } from '../chat/conversation.js'
import { startProviders, type Installed, type Providers } from './installed.js'

describe('a plugin as a model provider', () => {
  let gateway: Providers
  let me: Speaker

  afterEach(() => gateway.stop())

  const start = async (settings: Record<string, string> = {}): Promise<void> => {
    gateway = await startProviders({ settings })
    me = gateway.me
  }
  const agent = async (model: string): Promise<string> => (await me.expect(201, 'POST', '/agents', { name: 'Agent', model })).id
  const echo = (manifest: Record<string, unknown> = {}): Promise<Installed> => gateway.add('echo-model', 'echo', 'ModelProvider', manifest)
  const listed = async (): Promise<Record<string, unknown>[]> => (await me.expect(200, 'GET', '/models')).items

  it("answers agents that name it, by its id or its providerType, and is told the model's name, the system and the tools", async () => {
    await start()
    await echo({ providerType: 'Echo' })
    for (const [model, described] of [
      ['echo-model', 'default'],
      ['echo/small', 'small'],
      ['ECHO/org/large', 'org/large'],
    ] as const) {
      const agentId = await agent(model)
      assert.equal((await me.ask('hello there', { agentId })).reply, 'You said: hello there')
      const { reply } = await me.ask('describe yourself', { agentId })
      assert.match(reply, new RegExp(`^${described}, a system, [1-9]\\d* tools, no key, 1 messages$`))
    }
  })

  it('remembers the conversation, and can be the default', async () => {
    await start({ 'Service:Models:Default': 'echo-model/small' })
    await echo()
    const { sessionId } = await me.ask('hello')
    assert.match((await me.ask('describe yourself', { sessionId })).reply, /^small, .* 3 messages$/)
  })

  it("runs the tools that it asks for, within the agent's allow-list, and shows the calls in the session", async () => {
    await start()
    await echo()
    const agentId = await agent('echo-model')
    const { reply, sessionId } = await me.ask('use memory_remember {"text": "Alice likes tea"}', { agentId })
    assert.match(reply, /^the tool said: \{"id":"mem_/)
    const [, call, answer] = await me.messages(sessionId)
    assert.deepEqual([call!.role, JSON.parse(call!.content).name, answer!.role], ['tool', 'memory.remember', 'assistant'])
    assert.match((await me.ask('use time_now {"timeZone": "Mars/Olympus"}', { agentId })).reply, /not a known time zone/)
    assert.match((await me.ask('use no_such_tool {}', { agentId })).reply, /no_such_tool/)
    await me.expect(200, 'PUT', `/agents/${agentId}/tools`, { tools: ['time.now'] })
    assert.match((await me.ask('use memory_search {"query": "tea"}', { agentId })).reply, /memory_search/)
    assert.match((await me.ask('describe yourself', { agentId })).reply, / 1 tools/)
  })

  it('is listed beside the other providers, with its models, which are asked for once', async () => {
    await start({ 'Service:Models:Providers:local:BaseUrl': 'http://127.0.0.1:9/v1', 'Service:Models:Providers:local:Model': 'llama' })
    await echo({ providerType: 'echo' })
    const scripted = await gateway.add('scripted', 'scripted', 'ModelProvider', { providerType: 'local' })
    const expected = [
      { name: 'echo', source: 'plugin', pluginId: 'echo-model', models: ['small', 'large'], ready: true, default: false },
      { name: 'local', source: 'configuration', models: ['llama'], ready: true, default: true },
      { name: 'offline', source: 'builtin', models: [], ready: true, default: false },
      { name: 'scripted', source: 'plugin', pluginId: 'scripted', models: ['one', 'two'], ready: true, default: false },
    ]
    assert.deepEqual(await listed(), expected)
    assert.deepEqual(await listed(), expected)
    assert.deepEqual(await scripted.noted('listed'), ['1.0.0'])
    assert.equal((await gateway.call('GET', '/models')).status, 401)
    assert.equal((await gateway.call('GET', '/plugins/scripted', { token: gateway.token })).body.providerType, 'local')

    await scripted.leave('list', JSON.stringify({ models: ['with space'] }))
    await scripted.install('1.1.0')
    const { models, reason, ready } = (await listed()).find(({ name }) => name === 'scripted')!
    assert.deepEqual([models, ready], [[], true])
    assert.match(String(reason), /made a mistake: its models are not names without white space/)
    await scripted.act('stop')
    const stopped = (await listed()).find(({ name }) => name === 'scripted')!
    assert.equal(stopped.ready, false)
    assert.match(String(stopped.reason), /stopped by an administrator/)
  })

  it('gives way to a configured provider of its name; of two with one providerType the higher version answers', async () => {
    await start({ 'Service:Models:Providers:echo:BaseUrl': 'http://127.0.0.1:9/v1', 'Service:Models:Providers:echo:Retries': '0' })
    const first = await gateway.add('first', 'scripted', 'ModelProvider', { providerType: 'twins' })
    await gateway.add('second', 'scripted', 'ModelProvider', { providerType: 'twins' })
    const ask = JSON.stringify([['sayVersion'], ['result', {}]])
    assert.equal((await me.ask(ask, { agentId: await agent('twins') })).reply, '1.0.0')
    await first.install('1.10.0')
    assert.equal((await me.ask(ask, { agentId: await agent('twins') })).reply, '1.10.0')
    await echo({ providerType: 'echo' })
    const { taskId } = await me.send('hello', { agentId: await agent('echo/x') })
    assert.match((await me.finished(taskId)).error.message, /"echo" failed: .*connect/i)
  })

  it('is given its settings from the configuration, and refused while a required one is missing; secrets stay secret', async () => {
    await start()
    const settings = [{ name: 'apiKey', type: 'secret', required: true }, { name: 'greeting' }]
    await echo({ settings })
    const agentId = await agent('echo-model')
    const { error } = await me.expect(502, 'POST', '/chat', { message: 'hello', agentId })
    assert.match(error.message, /needs the setting "apiKey": give it as Service:Plugins:Settings:echo-model:apiKey/)
    assert.match(String((await listed())[0]!.reason), /apiKey/)
    await gateway.configure({
      Plugins: { Settings: { 'Echo-Model': { apiKey: 'sk-very-secret', greeting: 'Bonjour', other: 'not declared' } } },
    })
    assert.equal((await me.ask('hello', { agentId })).reply, 'Bonjour: hello')
    assert.match((await me.ask('describe yourself', { agentId })).reply, /a key of 14/)
    assert.doesNotMatch(gateway.logged(), /sk-very-secret/)
  })

  it('is nobody while Service:Plugins:Experimental is off', async () => {
    await start({ 'Service:Plugins:Experimental': 'false' })
    await echo({ providerType: 'echo' })
    for (const model of ['echo', 'echo-model/small']) {
      const { error } = await me.expect(502, 'POST', '/chat', { message: 'hello', agentId: await agent(model) })
      assert.match(error.message, /there is no provider/)
    }
    assert.deepEqual(
      (await listed()).map(({ name }) => name),
      ['offline'],
    )
    assert.match(
      gateway.logged(),
      /echo-model: nothing uses plugins of the interface ModelProvider yet, unless Service:Plugins:Experimental/,
    )
    await gateway.configure({ Plugins: { Experimental: true } })
    await waitFor('the list', async () => (await listed()).length === 2)
    assert.equal((await me.ask('hello', { agentId: await agent('echo') })).reply, 'You said: hello')
  })
})
