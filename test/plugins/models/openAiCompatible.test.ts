import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createApp } from '../../../core/app.js'
import { Config } from '../../../core/config.js'
import { createLog } from '../../../core/log.js'
import auditPlugin from '../../../plugins/audit/index.js'
import identityPlugin from '../../../plugins/identity/index.js'
import vaultPlugin from '../../../plugins/vault/index.js'
import modelPlugin from '../../../plugins/models/index.js'
import offlinePlugin from '../../../plugins/offline/index.js'
import { models as modelsRef } from '../../../plugins/models/contract.js'
import { admin, startConversations, type Speaker } from '../chat/conversation.js'
import type { Answer, TestGateway } from '../../support/gateway.js'
import { steadyPort } from '../../support/steadyPort.js'
import { waitFor } from '../../support/waitFor.js'
import { callTool, Endpoint, providerSettings, refuse, say } from './endpoint.js'

const KEY = 'sk-very-secret-key'

describe('a configured model provider', () => {
  let endpoint: Endpoint
  let gateway: TestGateway
  let me: Speaker

  beforeEach(async () => {
    endpoint = await Endpoint.start()
  })
  afterEach(async () => {
    await gateway.stop()
    await endpoint.close()
  })

  const start = async (more: Record<string, string> = {}): Promise<void> => {
    gateway = await startConversations({ settings: { ...providerSettings(endpoint, more), 'Service:Chat:StopGraceMs': '0' } })
    me = await admin(gateway)
  }

  /** Asks a question that fails, and gives the task with the session's last message. */
  const failing = async (): Promise<{ task: Answer['body']; last: Answer['body'] }> => {
    const { taskId, sessionId } = await me.send('hello')
    const task = await me.finished(taskId)
    return { task, last: (await me.messages(sessionId)).at(-1) }
  }

  it('answers with its default model, and gets the key as a bearer token', async () => {
    await start()
    assert.equal((await me.ask('hello')).reply, 'You said: hello')
    assert.equal(endpoint.requests[0]!.model, 'small')
    assert.equal(endpoint.requests[0]!.headers.authorization, `Bearer ${KEY}`)
  })

  it("runs the tools that the model calls, within the agent's allow-list, and shows the calls in the session", async () => {
    await start()
    endpoint.respond = (request, response) => {
      const results = request.messages.filter(({ role }) => role === 'tool')
      if (results.length === 0) callTool(response, 'memory_remember', { text: 'Alice likes tea' })
      else if (results.length === 1) callTool(response, 'memory_search', { query: 'tea' })
      else say(response, `found: ${results[1]!.content}`)
    }
    const { reply, sessionId } = await me.ask('remember and look')
    assert.match(reply, /Alice likes tea/)
    assert.deepEqual(endpoint.requests[0]!.tools!.map(({ function: { name } }) => name).toSorted(), [
      'memory_remember',
      'memory_search',
      'time_now',
    ])
    assert.deepEqual(endpoint.requests[0]!.tools![0]!.function.parameters.required, ['text'])
    const messages = await me.messages(sessionId)
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'tool', 'tool', 'assistant'],
    )
    const [remembered, searched] = messages.slice(1).map(({ role, content }) => (role === 'tool' ? JSON.parse(content) : undefined))
    assert.equal(remembered.name, 'memory.remember')
    assert.deepEqual(remembered.parameters, { text: 'Alice likes tea' })
    assert.equal(searched.result[0].text, 'Alice likes tea')

    const agent = await me.expect(201, 'POST', '/agents', { name: 'Clock' })
    await me.expect(200, 'PUT', `/agents/${agent.id}/tools`, { tools: ['time.now'] })
    endpoint.requests.length = 0
    endpoint.respond = (_request, response) => say(response, 'done')
    await me.ask('hello', { agentId: agent.id })
    assert.deepEqual(
      endpoint.requests[0]!.tools!.map(({ function: { name } }) => name),
      ['time_now'],
    )
  })

  it('tells the model when a tool fails or its parameters are wrong, and goes on', async () => {
    await start()
    endpoint.respond = (request, response) => {
      const results = request.messages.filter(({ role }) => role === 'tool')
      if (results.length === 0) callTool(response, 'time_now', { timeZone: 'Mars/Olympus' })
      else say(response, `the tool said: ${results[0]!.content}`)
    }
    assert.match((await me.ask('time on Mars?')).reply, /not a known time zone/)
  })

  it('ends a model that only ever calls tools', async () => {
    await start({ MaxSteps: '3' })
    endpoint.respond = (request, response) =>
      request.tool_choice === 'none' ? say(response, 'enough') : callTool(response, 'time_now', {})
    assert.equal((await me.ask('loop')).reply, 'enough')
    assert.equal(endpoint.requests.length, 3)
  })

  it('fails the task with upstream_unavailable when it fails, says so in the session, and never answers offline instead', async () => {
    await start()
    endpoint.respond = (_request, response) => refuse(response, 500, `the key ${KEY} broke something`)
    const { task, last } = await failing()
    assert.equal(task.status, 'failed')
    assert.equal(task.error.code, 'upstream_unavailable')
    assert.match(task.error.message, /"test" failed: HTTP 500: the key \*{8} broke something/)
    assert.equal(last.role, 'system')
    assert.equal(last.id, task.replyMessageId)
    assert.match(last.content, /HTTP 500/)
    assert.doesNotMatch(JSON.stringify([task, last]) + gateway.logged(), new RegExp(KEY))
    assert.doesNotMatch(last.content, /offline/)
  })

  it('tries again as often as configured', async () => {
    await start({ Retries: '2' })
    endpoint.respond = (_request, response) => (endpoint.requests.length < 3 ? refuse(response, 503, 'busy') : say(response, 'at last'))
    assert.equal((await me.ask('hello')).reply, 'at last')
    assert.equal(endpoint.requests.length, 3)
  })

  it('fails the task when nobody listens, when the answer is no JSON, and when it is empty', async () => {
    await start()
    endpoint.respond = (_request, response) => void response.end('<html>not a model</html>')
    assert.equal((await failing()).task.error.code, 'upstream_unavailable')
    endpoint.respond = (_request, response) => say(response, '  ')
    assert.match((await failing()).task.error.message, /empty answer/)
    await gateway.stop()
    const closed = await steadyPort()
    await start({ BaseUrl: `http://127.0.0.1:${closed}/v1` })
    assert.match((await failing()).task.error.message, /"test" failed: .*connect/i)
  })

  it('fails the task when the answer takes longer than the timeout', async () => {
    // Longer than the request may take to arrive.
    await start({ TimeoutMs: '1500' })
    endpoint.respond = () => undefined
    const { task } = await failing()
    assert.equal(task.error.code, 'upstream_unavailable')
    assert.match(task.error.message, /no answer within 1\.5 s/)
    await waitFor('the request is given up', () => endpoint.abandoned === 1)
  })

  it('gives up the request when the task is cancelled', async () => {
    await start()
    endpoint.respond = () => undefined
    const { taskId, sessionId } = await me.send('hello')
    await waitFor('the model is asked', () => endpoint.requests.length === 1)
    assert.equal((await me.expect(200, 'GET', `/tasks/${taskId}`)).status, 'running')
    assert.equal((await me.expect(200, 'POST', `/tasks/${taskId}/cancel`)).status, 'cancelled')
    await waitFor('the request is given up', () => endpoint.abandoned === 1)
    assert.deepEqual(
      (await me.messages(sessionId)).map(({ role }) => role),
      ['user', 'system'],
    )
  })

  it('refuses a message at once when the agent names a model that nothing provides', async () => {
    await start()
    for (const [model, why] of [
      ['nobody/large', /"nobody"/],
      ['offline/large', /no model "large"/],
    ] as const) {
      const agent = await me.expect(201, 'POST', '/agents', { name: 'Lost', model })
      const { error } = await me.expect(502, 'POST', '/chat', { message: 'hello', agentId: agent.id })
      assert.equal(error.code, 'upstream_unavailable')
      assert.match(error.message, why)
    }
    assert.equal((await me.expect(200, 'GET', '/sessions')).items.length, 0)
  })

  it('answers with the model that the agent names, offline when it names that', async () => {
    await start()
    const large = await me.expect(201, 'POST', '/agents', { name: 'Large', model: 'test/org/large' })
    await me.ask('hello', { agentId: large.id })
    assert.equal(endpoint.requests[0]!.model, 'org/large')
    await me.expect(200, 'PATCH', `/agents/${large.id}`, { model: 'offline' })
    assert.match((await me.ask('hello', { agentId: large.id })).reply, /offline/)
    await me.expect(200, 'PATCH', `/agents/${large.id}`, { model: null })
    assert.match((await me.ask('hello', { agentId: large.id })).reply, /You said/)
  })

  it('does not fall back to offline when a provider has no model', async () => {
    await start({ Model: '' }).then(
      () => assert.fail('an empty model is refused'),
      () => undefined,
    )
    gateway = await startConversations({ settings: { 'Service:Models:Providers:test:BaseUrl': endpoint.url } })
    me = await admin(gateway)
    const { error } = await me.expect(502, 'POST', '/chat', { message: 'hello' })
    assert.match(error.message, /Service:Models:Providers:test:Model/)
  })

  it('takes providers and the default from the configuration file while running', async () => {
    await start()
    const directory = await mkdtemp(join(tmpdir(), 'models-test-'))
    const config = new Config({ file: join(directory, 'service.json'), defaults: { 'Service:DataDir': directory, 'Service:Port': '0' } })
    const app = createApp([modelPlugin, offlinePlugin, identityPlugin, auditPlugin, vaultPlugin], {
      config,
      log: createLog({ level: 'silent' }),
    })
    await app.start()
    try {
      const answer = async (): Promise<string> => {
        const { model } = await app
          .service(modelsRef)
          .generate({ messages: [{ role: 'user', content: 'hello' }], signal: new AbortController().signal })
        return model
      }
      const write = async (models: unknown): Promise<void> => {
        await writeFile(config.file, JSON.stringify({ Service: { Models: models } }))
        config.reload()
      }
      assert.equal(await answer(), 'offline')
      await write({ Providers: { one: { BaseUrl: endpoint.url, ApiKey: KEY, Model: 'a' }, two: { BaseUrl: endpoint.url, Model: 'b' } } })
      assert.equal(await answer(), 'one/a')
      await write({ Default: 'two', Providers: { two: { BaseUrl: endpoint.url, Model: 'b' } } })
      assert.equal(await answer(), 'two/b')
      await assert.rejects(write({ Providers: { offline: { BaseUrl: endpoint.url } } }), /offline.*use another name/)
      assert.equal(await answer(), 'two/b')
      await write({ Default: 'one' })
      await assert.rejects(answer(), /no provider "one"/)
      await write({})
      assert.equal(await answer(), 'offline')
    } finally {
      await app.stop()
      await rm(directory, { recursive: true })
    }
  })

  it('serves other areas through models.generate', async () => {
    await start()
    const models = gateway.service(modelsRef)
    const messages = [
      { role: 'user' as const, content: 'first' },
      { role: 'user' as const, content: 'second' },
    ]
    const answer = await models.generate({ system: 'be kind', messages, signal: new AbortController().signal })
    assert.deepEqual(answer, {
      text: 'You said: first\n\nsecond',
      model: 'test/small',
      calls: [],
      usage: { inputTokens: 3, outputTokens: 4 },
    })
    assert.equal(endpoint.requests[0]!.messages[0]!.content, 'be kind')
    await assert.rejects(models.generate({ messages, signal: AbortSignal.abort(new Error('enough')) }), /enough/)
  })
})
