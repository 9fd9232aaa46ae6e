import assert from 'node:assert/strict'
import { Endpoint, providerSettings, say } from '../models/endpoint.js'
import type { TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { admin, newUser, startConversations, type Speaker } from './conversation.js'

describe('tasks', () => {
  let endpoint: Endpoint
  let gateway: TestGateway
  let me: Speaker
  let held: (() => void)[]
  let most: number
  let open: number

  beforeEach(async () => {
    held = []
    most = 0
    open = 0
    endpoint = await Endpoint.start()
    endpoint.respond = (request, response) => {
      most = Math.max(most, ++open)
      held.push(() => {
        open -= 1
        say(response, `answer to ${request.messages.at(-1)!.content}`)
      })
    }
    gateway = await startConversations({
      settings: {
        ...providerSettings(endpoint),
        'Service:Chat:Concurrency': '2',
        'Service:Chat:MaxPending': '5',
        'Service:Chat:StopGraceMs': '0',
        'Service:RateLimits:Decision': '3',
      },
    })
    me = await admin(gateway)
  })
  afterEach(async () => {
    await gateway.stop()
    await endpoint.close()
  })

  const releaseAll = async (count: number): Promise<void> => {
    for (let index = 0; index < count; index += 1) (await waitFor(`request ${index}`, () => held[index]))()
  }

  it('run at most as many at a time as configured, and are listed while they wait and afterwards', async () => {
    const sent = []
    for (const name of ['a', 'b', 'c', 'd']) sent.push(await me.send(name))
    await waitFor('two run', () => held.length === 2)
    const { items } = await me.expect(200, 'GET', '/tasks/active')
    assert.deepEqual(
      items.map(({ id }: { id: string }) => id).toReversed(),
      sent.map(({ taskId }) => taskId),
    )
    assert.deepEqual(items.map(({ status }: { status: string }) => status).toSorted(), ['queued', 'queued', 'running', 'running'])
    await releaseAll(4)
    for (const { taskId } of sent) assert.equal((await me.finished(taskId)).status, 'succeeded')
    assert.equal(most, 2)
    assert.equal((await me.expect(200, 'GET', '/tasks/active')).items.length, 0)
    const first = await me.expect(200, 'GET', '/tasks/history?limit=3&status=succeeded')
    assert.equal(first.items.length, 3)
    const second = await me.expect(200, 'GET', `/tasks/history?limit=3&status=succeeded&cursor=${first.nextCursor}`)
    assert.equal(second.items.length, 1)
    await me.expect(400, 'GET', '/tasks/history?cursor=broken')
    await me.expect(400, 'GET', '/tasks/history?status=queued')
    assert.equal((await me.expect(200, 'GET', '/tasks/history?status=failed')).items.length, 0)
  })

  it('do not let one session hold up the others', async () => {
    const first = await me.send('one')
    const more = [await me.send('two', { sessionId: first.sessionId }), await me.send('three', { sessionId: first.sessionId })]
    const elsewhere = await me.send('elsewhere')
    await waitFor('both sessions are asked about', () => held.length === 2)
    assert.equal((await me.expect(200, 'GET', `/tasks/${elsewhere.taskId}`)).status, 'running')
    assert.equal((await me.expect(200, 'GET', `/tasks/${more[0]!.taskId}`)).status, 'queued')
    await releaseAll(4)
    for (const { taskId } of more) await me.finished(taskId)
  })

  it('are cancelled while they wait: they never reach the model, and what follows runs', async () => {
    const running = await me.send('one')
    const waiting = await me.send('two', { sessionId: running.sessionId })
    const last = await me.send('three', { sessionId: running.sessionId })
    const cancelled = await me.expect(200, 'POST', `/tasks/${waiting.taskId}/cancel`)
    assert.equal(cancelled.status, 'cancelled')
    assert.ok(cancelled.finishedAt)
    assert.equal((await me.expect(200, 'POST', `/tasks/${waiting.taskId}/cancel`)).status, 'cancelled')
    await releaseAll(2)
    await me.finished(last.taskId)
    assert.equal(
      endpoint.requests.some(({ messages }) => messages.at(-1)!.content === 'two'),
      false,
    )
    const { error } = await me.expect(409, 'POST', `/tasks/${running.taskId}/cancel`)
    assert.match(error.message, /succeeded already/)
    const limited = await me.call('POST', `/tasks/${running.taskId}/cancel`)
    assert.equal(limited.status, 429)
    assert.ok(Number(limited.headers.get('retry-after')) > 0)
  })

  it('are cancelled with their session, and leave nothing of it behind', async () => {
    const { sessionId, taskId } = await me.send('one')
    const next = await me.send('two', { sessionId })
    await waitFor('the first runs', () => held.length === 1)
    await me.expect(204, 'DELETE', `/sessions/${sessionId}`)
    for (const id of [taskId, next.taskId]) assert.equal((await me.finished(id)).status, 'cancelled')
    await waitFor('the request is given up', () => endpoint.abandoned === 1)
    await me.expect(404, 'GET', `/sessions/${sessionId}`)
    assert.equal((await me.expect(200, 'GET', '/sessions')).items.length, 0)
  })

  it('are bounded for each user; one over the bound is told to wait, another user is not', async () => {
    for (let count = 0; count < 5; count += 1) await me.send(`message ${count}`)
    const refused = await me.call('POST', '/chat', { message: 'one too many' })
    assert.equal(refused.status, 429)
    assert.equal(refused.body.error.code, 'rate_limited')
    assert.match(refused.body.error.message, /5 of your messages still wait/)
    assert.ok(refused.headers.get('retry-after'))
    const other = await newUser(gateway, 'other@localhost')
    await other.send('hello')
    await releaseAll(6)
    await waitFor('the queue is empty', async () => (await me.expect(200, 'GET', '/tasks/active')).items.length === 0)
    assert.equal((await me.call('POST', '/chat', { message: 'now?' })).status, 202)
  })

  it('count against the limit for chat messages', async () => {
    await gateway.stop()
    gateway = await startConversations({ settings: { 'Service:RateLimits:Chat': '2' } })
    me = await admin(gateway)
    await me.send('/help')
    await me.send('/help')
    const refused = await me.call('POST', '/chat', { message: '/help' })
    assert.equal(refused.status, 429)
    assert.ok(Number(refused.headers.get('retry-after')) > 0)
  })

  it('that do not exist are not found', async () => {
    await me.expect(404, 'GET', '/tasks/tsk_unknown')
    await me.expect(404, 'POST', '/tasks/tsk_unknown/cancel')
  })
})
