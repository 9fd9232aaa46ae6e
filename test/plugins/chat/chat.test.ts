import assert from 'node:assert/strict'
import { chat as chatRef } from '../../../plugins/chat/contract.js'
import { definePlugin } from '../../../core/plugin.js'
import { notFound } from '../../../core/errors.js'
import { documents as documentsRef } from '../../../plugins/documents/contract.js'
import attachments from '../../../plugins/attachments/index.js'
import { Endpoint, providerSettings, say } from '../models/endpoint.js'
import type { TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { admin, newUser, ownerOf, startConversations, type Speaker } from './conversation.js'

describe('chat', () => {
  let gateway: TestGateway
  let me: Speaker
  let other: Speaker

  before(async () => {
    gateway = await startConversations()
    me = await admin(gateway)
    other = await newUser(gateway, 'other@localhost')
  })
  after(() => gateway.stop())

  it('accepts a message at once, with the session and the message already there', async () => {
    const answer = await me.call('POST', '/chat', { message: '/help' })
    assert.equal(answer.status, 202)
    assert.deepEqual(Object.keys(answer.body).sort(), ['messageId', 'sessionId', 'taskId'])
    const [first] = await me.messages(answer.body.sessionId)
    assert.equal(first!.id, answer.body.messageId)
    assert.equal(first!.role, 'user')
    assert.equal(first!.taskId, answer.body.taskId)
  })

  it('answers offline: says so, remembers, recalls and quotes what it remembered', async () => {
    assert.match((await me.ask('/help')).reply, /offline.*\/remember/s)
    assert.match((await me.ask('/remember The door code is 4711')).reply, /^Remembered \(mem_/)
    const { reply } = await me.ask('What is the door code, please?')
    assert.match(reply, /offline/)
    assert.match(reply, /> The door code is 4711\n— memory/)
    assert.match((await me.ask('/recall door')).reply, /4711/)
    assert.doesNotMatch((await other.ask('What is the door code?')).reply, /4711/)
  })

  it('goes on with a session: its messages come oldest first and its list entry moves to the top', async () => {
    const { sessionId } = await me.ask('/help')
    await me.ask('/time')
    await me.ask('/recall nothing', { sessionId })
    const messages = await me.messages(sessionId)
    assert.deepEqual(
      messages.map(({ role }) => role),
      ['user', 'assistant', 'user', 'assistant'],
    )
    assert.deepEqual(
      messages.map(({ createdAt }) => createdAt).toSorted(),
      messages.map(({ createdAt }) => createdAt),
    )
    const { items } = await me.expect(200, 'GET', '/sessions?limit=1')
    assert.equal(items[0].id, sessionId)
    assert.equal(items[0].title, '/help')
    assert.equal('turns' in items[0] || 'sessionKey' in items[0], false)
  })

  it('pages through messages and sessions, and refuses a damaged or foreign cursor', async () => {
    const { sessionId } = await me.ask('/help')
    await me.ask('/time', { sessionId })
    const first = await me.expect(200, 'GET', `/sessions/${sessionId}/messages?limit=3`)
    assert.equal(first.items.length, 3)
    assert.equal(first.hasMore, true)
    const second = await me.expect(200, 'GET', `/sessions/${sessionId}/messages?limit=3&cursor=${first.nextCursor}`)
    assert.deepEqual(
      [...first.items, ...second.items].map(({ id }) => id),
      (await me.messages(sessionId)).map(({ id }) => id),
    )
    assert.equal(second.nextCursor, null)
    const newest = await me.expect(200, 'GET', `/sessions/${sessionId}/messages?limit=1&order=desc`)
    assert.equal(newest.items[0].id, (await me.messages(sessionId)).at(-1)!.id)
    for (const cursor of ['nonsense', (first.nextCursor as string).slice(4), Buffer.from('{}').toString('base64url')])
      assert.equal((await me.expect(400, 'GET', `/sessions/${sessionId}/messages?cursor=${cursor}`)).error.code, 'invalid_request', cursor)
    const sessions = await me.expect(200, 'GET', '/sessions?limit=1')
    await me.expect(400, 'GET', `/sessions/${sessionId}/messages?cursor=${sessions.nextCursor}`)
    for (const limit of ['0', '201', 'many']) await me.expect(400, 'GET', `/sessions?limit=${limit}`)
  })

  it('refuses bodies that break the schema, naming the field', async () => {
    for (const [body, path] of [
      [{}, 'message'],
      [{ message: '' }, 'message'],
      [{ message: ' \n ' }, 'message'],
      [{ message: 7 }, 'message'],
      [{ message: 'x'.repeat(100_001) }, 'message'],
      [{ message: 'x', sessionId: {} }, 'sessionId'],
      [{ message: 'x', attachments: 'doc_1' }, 'attachments'],
      [{ message: 'x', attachments: ['doc_1'] }, 'attachments'],
    ] as const) {
      const { error } = await me.expect(422, 'POST', '/chat', body)
      assert.equal(error.code, 'validation_failed')
      assert.equal(error.details.issues[0].path, path)
    }
    const headers = { 'Content-Type': 'application/json' }
    assert.equal((await gateway.call('POST', '/chat', { token: me.token, body: '{"message":', headers })).status, 400)
    assert.equal((await gateway.call('POST', '/chat', { body: { message: 'x' } })).status, 401)
  })

  it("shows nobody another user's agent, session or task", async () => {
    const { sessionId, taskId } = await me.ask('/help')
    const { agentId } = await me.expect(200, 'GET', `/sessions/${sessionId}`)
    for (const [method, path, body] of [
      ['GET', `/sessions/${sessionId}`],
      ['GET', `/sessions/${sessionId}/messages`],
      ['POST', `/sessions/${sessionId}/fork`, {}],
      ['DELETE', `/sessions/${sessionId}`],
      ['GET', `/tasks/${taskId}`],
      ['POST', `/tasks/${taskId}/cancel`],
      ['GET', `/agents/${agentId}`],
      ['GET', `/agents/${agentId}/soul`],
      ['PATCH', `/agents/${agentId}`, { name: 'mine' }],
      ['PUT', `/agents/${agentId}/tools`, { tools: ['*'] }],
      ['DELETE', `/agents/${agentId}`],
      ['POST', '/chat', { message: 'x', sessionId }],
      ['POST', '/chat', { message: 'x', agentId }],
    ] as const)
      assert.equal((await other.expect(404, method, path, body)).error.code, 'not_found')
    const mine = (await other.expect(200, 'GET', '/sessions')).items.map(({ id }: { id: string }) => id)
    assert.equal(mine.includes(sessionId), false)
    await me.expect(200, 'GET', `/sessions/${sessionId}`)
  })

  it('forks a session up to a message, and the copies go their own ways', async () => {
    const { sessionId } = await me.ask('/help')
    await me.ask('/time', { sessionId })
    const source = await me.messages(sessionId)
    const fork = await me.expect(201, 'POST', `/sessions/${sessionId}/fork`, { messageId: source[1]!.id })
    assert.deepEqual(fork.forkedFrom, { sessionId, messageId: source[1]!.id })
    assert.deepEqual(
      (await me.messages(fork.id)).map(({ content }) => content),
      source.slice(0, 2).map(({ content }) => content),
    )
    const whole = await me.expect(201, 'POST', `/sessions/${sessionId}/fork`)
    assert.equal((await me.messages(whole.id)).length, 4)
    await me.ask('/recall x', { sessionId: fork.id })
    assert.equal((await me.messages(fork.id)).length, 4)
    assert.equal((await me.messages(sessionId)).length, 4)
    await me.expect(404, 'POST', `/sessions/${sessionId}/fork`, { messageId: 'msg_unknown' })
    await me.expect(422, 'POST', `/sessions/${sessionId}/fork`, { messageId: 5 })
  })

  it('deletes a session with its messages, and leaves its tasks readable', async () => {
    const { sessionId, taskId } = await me.ask('/help')
    await me.expect(204, 'DELETE', `/sessions/${sessionId}`)
    await me.expect(404, 'GET', `/sessions/${sessionId}/messages`)
    await me.expect(404, 'POST', '/chat', { message: 'again', sessionId })
    await me.expect(404, 'DELETE', `/sessions/${sessionId}`)
    await me.expect(200, 'GET', `/tasks/${taskId}`)
  })

  it("keeps a deleted agent's sessions readable and says how to go on with them", async () => {
    const agent = await me.expect(201, 'POST', '/agents', { name: 'Short-lived' })
    const { sessionId } = await me.ask('/help', { agentId: agent.id })
    await me.expect(204, 'DELETE', `/agents/${agent.id}`)
    assert.equal((await me.messages(sessionId)).length, 2)
    const { error } = await me.expect(409, 'POST', '/chat', { message: 'still there?', sessionId })
    assert.match(error.message, /agentId/)
    const next = await me.expect(201, 'POST', '/agents', { name: 'Next' })
    assert.match((await me.ask('/help', { sessionId, agentId: next.id })).reply, /offline/)
    assert.equal((await me.expect(200, 'GET', `/sessions/${sessionId}`)).agentId, next.id)
  })

  it('makes one message and one session of the same idempotency key, also when sent at once', async () => {
    const owner = await ownerOf(me)
    const chat = gateway.service(chatRef)
    const message = { message: '/help', idempotencyKey: 'delivery-1', sessionKey: 'channel:7:alice' }
    const answers = await Promise.all(Array.from({ length: 8 }, () => chat.send(owner, message)))
    assert.equal(new Set(answers.map(answer => JSON.stringify(answer))).size, 1)
    await me.finished(answers[0]!.taskId)
    assert.deepEqual(await chat.send(owner, message), answers[0])
    assert.equal((await me.messages(answers[0]!.sessionId)).length, 2)
    const next = await chat.send(owner, { message: '/time', idempotencyKey: 'delivery-2', sessionKey: 'channel:7:alice' })
    assert.equal(next.sessionId, answers[0]!.sessionId)
    assert.notEqual(next.taskId, answers[0]!.taskId)
    assert.notEqual((await chat.send(owner, { message: '/time', sessionKey: 'channel:7:bob' })).sessionId, next.sessionId)
  })

  it('makes one default agent of many first messages at once', async () => {
    const fresh = await newUser(gateway, 'fresh@localhost')
    const sent = await Promise.all(Array.from({ length: 10 }, () => fresh.send('/help')))
    await Promise.all(sent.map(({ taskId }) => fresh.finished(taskId)))
    assert.equal((await fresh.expect(200, 'GET', '/agents')).items.length, 1)
  })
})

describe('chat with a model', () => {
  let endpoint: Endpoint
  let gateway: TestGateway
  let me: Speaker

  const texts = [
    { id: 'doc_1', name: 'menu.txt', text: 'Soup of the day: lentils' },
    { id: 'doc_2', name: 'scan.png', text: null },
  ]
  const documents = definePlugin({
    id: 'documents',
    provides: documentsRef,
    setup: () => ({
      search: () => Promise.resolve([]),
      add: () => Promise.reject(new Error('Nothing is added here')),
      text: (_owner, id) => {
        const found = texts.find(text => text.id === id)
        return found ? Promise.resolve(found) : Promise.reject(notFound('Document'))
      },
    }),
  })

  before(async () => {
    endpoint = await Endpoint.start()
    gateway = await startConversations({
      plugins: [documents, attachments],
      settings: { ...providerSettings(endpoint), 'Service:Chat:HistoryCharacters': '200' },
    })
    me = await admin(gateway)
  })
  after(async () => {
    await gateway.stop()
    await endpoint.close()
  })
  beforeEach(() => {
    endpoint.requests.length = 0
    endpoint.respond = (request, response) => say(response, `answer to ${request.messages.at(-1)!.content}`)
  })

  it('answers the messages of one session in order, one at a time, even when they are sent at once', async () => {
    const { sessionId } = await me.ask('zero')
    let atOnce = 0
    let most = 0
    endpoint.respond = async (request, response) => {
      most = Math.max(most, ++atOnce)
      await new Promise(resolve => setTimeout(resolve, 10))
      atOnce -= 1
      say(response, `answer to ${request.messages.at(-1)!.content}`)
    }
    const names = ['one', 'two', 'three', 'four', 'five', 'six']
    const sent = []
    for (const name of names.slice(0, 3)) sent.push(await me.send(name, { sessionId }))
    sent.push(...(await Promise.all(names.slice(3).map(name => me.send(name, { sessionId })))))
    await Promise.all(sent.map(({ taskId }) => me.finished(taskId)))
    assert.equal(most, 1)
    const messages = await me.messages(sessionId)
    const asked = messages.filter(({ role }) => role === 'user').map(({ content }) => content)
    assert.deepEqual(asked.slice(0, 4), ['zero', 'one', 'two', 'three'])
    assert.deepEqual(asked.slice(4).toSorted(), ['five', 'four', 'six'])
    const answered = messages.filter(({ role }) => role === 'assistant').map(({ content }) => content)
    assert.equal(answered.length, 7)
    assert.deepEqual(answered.slice(0, 4), ['answer to zero', 'answer to one', 'answer to two', 'answer to three'])
  })

  it('gives the model each answer right behind its question, though the next question came before that answer', async () => {
    const held: (() => void)[] = []
    endpoint.respond = (request, response) =>
      new Promise(resolve => {
        held.push(() => {
          say(response, `answer to ${request.messages.at(-1)!.content}`)
          resolve()
        })
      })
    const first = await me.send('first')
    await waitFor('the first question reaches the model', () => held[0])
    const second = await me.send('second', { sessionId: first.sessionId })
    held[0]!()
    await waitFor('the second question reaches the model', () => held[1])
    held[1]!()
    await me.finished(second.taskId)
    assert.deepEqual(
      endpoint.requests
        .at(-1)!
        .messages.filter(({ role }) => role !== 'system')
        .map(({ content }) => content),
      ['first', 'answer to first', 'second'],
    )
  })

  it('gives the model SOUL.md and instructions always, BOOT.md with the first message, and a bounded history', async () => {
    const agent = await me.expect(201, 'POST', '/agents', { name: 'Butler', instructions: 'Be brief.' })
    await me.expect(200, 'PUT', `/agents/${agent.id}/soul`, { content: 'You are a butler.' })
    await me.expect(200, 'PUT', `/agents/${agent.id}/boot`, { content: 'Greet first.' })
    const { sessionId } = await me.ask('hello', { agentId: agent.id })
    for (let turn = 0; turn < 4; turn += 1) await me.ask(`${turn} ${'x'.repeat(60)}`, { sessionId })
    const [first, last] = [endpoint.requests[0]!, endpoint.requests.at(-1)!]
    assert.match(first.messages[0]!.content, /Butler.*You are a butler\..*Greet first\..*Be brief\./s)
    assert.match(last.messages[0]!.content, /You are a butler\..*Be brief\./s)
    assert.doesNotMatch(last.messages[0]!.content, /Greet/)
    const history = last.messages.slice(1)
    assert.equal(history[0]!.role, 'user')
    assert.match(history.at(-1)!.content, /^3 x/)
    assert.match(history[0]!.content, /^2 x/)
    assert.ok(history.slice(0, -1).reduce((sum, { content }) => sum + content.length, 0) <= 200)
  })

  it('gives the model the texts of attached documents, and refuses documents that are not there', async () => {
    const { sessionId } = await me.ask('What is for lunch?', { attachments: ['doc_1', 'doc_2'] })
    const { content } = endpoint.requests[0]!.messages.at(-1)!
    assert.match(content, /What is for lunch\?.*"menu\.txt".*lentils.*"scan\.png".*no text/s)
    const { items } = await me.expect(200, 'GET', `/sessions/${sessionId}/messages`)
    assert.deepEqual(items[0].attachments, ['doc_1', 'doc_2'])
    assert.equal(items[0].content, 'What is for lunch?')
    await me.expect(404, 'POST', '/chat', { message: 'x', attachments: ['doc_9'] })
  })
})
