import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Holder } from '../../../core/lease.js'
import { createLog } from '../../../core/log.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import { collections } from '../../../plugins/chat/collections.js'
import { chat as chatRef, type Chat, type OutgoingReply } from '../../../plugins/chat/contract.js'
import type { TaskRow } from '../../../plugins/chat/records.js'
import { deliveryBackOff, Replies } from '../../../plugins/chat/replies.js'
import type { TestGateway } from '../../support/gateway.js'
import { openCollection, temporaryDirectory } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'
import { Endpoint, providerSettings, refuse, say } from '../models/endpoint.js'
import { admin, ownerOf, startConversations, type Speaker } from './conversation.js'

const keepIn =
  (got: OutgoingReply[]) =>
  (reply: OutgoingReply): Promise<void> => {
    got.push(reply)
    return Promise.resolve()
  }

describe('replies to where a message came from', () => {
  let endpoint: Endpoint
  let dataDir: string
  let gateway: TestGateway
  let chat: Chat
  let me: Speaker

  const start = async (): Promise<void> => {
    gateway = await startConversations({ settings: { ...providerSettings(endpoint), 'Service:Chat:StopGraceMs': '0' }, dataDir })
    chat = gateway.service(chatRef)
    me = await admin(gateway)
  }

  beforeEach(async () => {
    endpoint = await Endpoint.start()
    dataDir = await mkdtemp(join(tmpdir(), 'replies-test-'))
    await start()
  })
  afterEach(async () => {
    await gateway.stop({ keep: true })
    await endpoint.close()
    await rm(dataDir, { recursive: true })
  })

  const origin = { kind: 'channel', data: { channelId: 'chn_1', chatId: '42' } }

  it('go to the sink of their kind, with what it kept of the message, once', async () => {
    const got: OutgoingReply[] = []
    chat.onReply('channel', keepIn(got))
    chat.onReply('other', () => assert.fail('the wrong sink'))
    const owner = await ownerOf(me)
    const { taskId, sessionId } = await chat.send(owner, { message: 'hello', origin })
    await chat.send(owner, { message: 'no origin', sessionId })
    const last = await chat.send(owner, { message: 'bye', sessionId, origin })
    await waitFor('both replies arrive', () => got.length === 2)
    assert.deepEqual(got[0], { taskId, sessionId, owner, origin, status: 'succeeded', text: 'You said: hello' })
    assert.equal(got[1]!.taskId, last.taskId)
    assert.throws(() => chat.onReply('channel', () => Promise.resolve()), /Two plugins/)
  })

  it('say so when a task failed or was cancelled', async () => {
    const got: OutgoingReply[] = []
    chat.onReply('channel', keepIn(got))
    endpoint.respond = (_request, response) => refuse(response, 400, 'no such thing')
    const owner = await ownerOf(me)
    await chat.send(owner, { message: 'hello', origin })
    await waitFor('the failure arrives', () => got.length === 1)
    assert.equal(got[0]!.status, 'failed')
    assert.match(got[0]!.text, /could not be answered.*no such thing/)
    endpoint.respond = () => undefined
    const { taskId } = await chat.send(owner, { message: 'hello', origin })
    await me.expect(200, 'POST', `/tasks/${taskId}/cancel`)
    await waitFor('the cancellation arrives', () => got.length === 2)
    assert.equal(got[1]!.status, 'cancelled')
    assert.match(got[1]!.text, /cancelled/)
  })

  it('are tried again until the sink takes them, in the order of the session', async () => {
    const owner = await ownerOf(me)
    const tried: string[] = []
    const taken: string[] = []
    chat.onReply('channel', ({ text }) => {
      tried.push(text)
      const isRefused = text.endsWith('stubborn') && tried.filter(other => other === text).length < 2
      if (!isRefused) taken.push(text)
      return isRefused ? Promise.reject(new Error('the platform is down')) : Promise.resolve()
    })
    const { sessionId } = await chat.send(owner, { message: 'stubborn', origin })
    await chat.send(owner, { message: 'second', sessionId, origin })
    await chat.send(owner, { message: 'third', sessionId, origin })
    await chat.send(owner, { message: 'elsewhere', origin })
    await waitFor('all are taken', () => taken.length === 4)
    assert.deepEqual(
      taken.filter(text => !text.endsWith('elsewhere')),
      ['You said: stubborn', 'You said: second', 'You said: third'],
    )
    assert.equal(taken[0], 'You said: elsewhere', 'another session is not held up')
    assert.match(gateway.logged(), /the platform is down/)
  })

  it('are brought after a restart when nobody took them before', async () => {
    const owner = await ownerOf(me)
    const { taskId } = await chat.send(owner, { message: 'hello', origin })
    await me.finished(taskId)
    await gateway.stop({ keep: true })
    endpoint.respond = (_request, response) => say(response, 'must not be asked again')
    await start()
    const got: OutgoingReply[] = []
    chat.onReply('channel', keepIn(got))
    await waitFor('the reply arrives', () => got.length === 1)
    assert.equal(got[0]!.text, 'You said: hello')
    await gateway.stop({ keep: true })
    await start()
    chat.onReply('channel', keepIn(got))
    await chat.send(owner, { message: 'another', origin })
    await waitFor('the next reply arrives', () => got.length === 2)
    assert.notEqual(got[1]!.taskId, taskId)
  })

  it('that a killed gateway was handing over are brought by the next one at once', async () => {
    const directory = await temporaryDirectory()
    const store = await openSqliteStore({ file: join(directory.path, 'store.db') })
    try {
      const tasks = await openCollection(store, 'chat.tasks', collections.tasks)
      const owner = { tenant: null, userId: 'u1' }
      const now = new Date().toISOString()
      const delivery = { state: 'pending', attempts: 0, nextAt: now, text: 'the reply' }
      const task = { id: 'tsk_1', sessionId: 'ses_1', turn: 1, status: 'succeeded', stage: 'done', origin, delivery, createdAt: now }
      await tasks.for(owner).insertOne(task as unknown as TaskRow)
      const log = createLog({ level: 'silent', write: () => undefined })
      const [killed, next] = [new Holder(), new Holder()]
      const first = new Replies(tasks, killed, log)
      let asked = 0
      let letGo = (): void => undefined
      first.onReply('channel', () => {
        asked += 1
        return new Promise(resolve => (letGo = resolve))
      })
      first.start()
      await waitFor('the hand-over to begin', () => asked === 1)
      const second = new Replies(tasks, next, log)
      const got: OutgoingReply[] = []
      second.onReply('channel', keepIn(got))
      killed.close()
      second.start()
      await waitFor('the reply', () => got.length === 1)
      await waitFor('it to be noted', async () => (await tasks.for(owner).findOne({ id: 'tsk_1' }))?.delivery?.state === 'delivered')
      letGo()
      await Promise.all([first.stop(), second.stop()])
      next.close()
      assert.equal(got.length, 1)
    } finally {
      await store.close()
      await directory.remove()
    }
  })

  it('wait longer after each failure, up to five minutes', () => {
    assert.deepEqual([1, 2, 3, 8, 9, 10, 1000].map(deliveryBackOff), [1_000, 2_000, 4_000, 128_000, 256_000, 300_000, 300_000])
  })
})
