import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '../../../core/log.js'
import { scoped } from '../../../core/store/scope.js'
import { openSqliteStore } from '../../../core/store/sqlite.js'
import type { Store } from '../../../core/store/collection.js'
import { collections } from '../../../plugins/chat/collections.js'
import { Holder } from '../../../core/lease.js'
import { TaskLedger } from '../../../plugins/chat/ledger.js'
import { TaskRunner } from '../../../plugins/chat/runner.js'
import type { TaskRow } from '../../../plugins/chat/records.js'
import { ADMIN, login } from '../../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../../support/gatewayProcess.js'
import { openCollection } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'
import { Endpoint, providerSettings, say } from '../models/endpoint.js'
import { admin, Speaker, startConversations } from './conversation.js'

describe('after the end of a gateway', () => {
  let endpoint: Endpoint
  let dataDir: string
  let launched: GatewayProcess | undefined

  beforeEach(async () => {
    endpoint = await Endpoint.start()
    dataDir = await mkdtemp(join(tmpdir(), 'recovery-test-'))
  })
  afterEach(async () => {
    await kill()
    launched = undefined
    await endpoint.close()
    await rm(dataDir, { recursive: true, force: true })
  })

  const kill = async (): Promise<void> => {
    launched?.kill('SIGKILL')
    await launched?.exited
  }

  const startProcess = async (): Promise<Speaker> => {
    launched = await launchGateway({
      dataDir,
      settings: { ...providerSettings(endpoint), 'Service:Admin:Password': ADMIN.password },
    })
    return new Speaker(launched, await login(launched))
  }

  /** Whoever waited for the leases of the one that was killed would wait in vain. */
  const prolongLeases = async (): Promise<void> => {
    const store = await openSqliteStore({ file: join(dataDir, 'store.db') })
    const tasks = await openCollection(store, 'chat.tasks', collections.tasks)
    const until = new Date(Date.now() + 3_600_000).toISOString()
    assert.equal(await tasks.everyone.updateMany({ status: 'running' }, { $set: { 'lease.until': until } }), 2)
    await store.close()
  }

  it('killed in the middle of an answer, the message is answered by the next one at once, and once', async () => {
    endpoint.respond = () => undefined
    let me = await startProcess()
    const first = await me.send('first')
    const second = await me.send('second', { sessionId: first.sessionId })
    const elsewhere = await me.send('elsewhere')
    await waitFor('both sessions are being answered', () => endpoint.requests.length === 2)
    await kill()
    await prolongLeases()
    endpoint.respond = (request, response) => say(response, `answer to ${request.messages.at(-1)!.content}`)
    me = await startProcess()
    for (const { taskId } of [first, second, elsewhere]) assert.equal((await me.finished(taskId)).status, 'succeeded')
    assert.deepEqual(
      (await me.messages(first.sessionId)).map(({ content }) => content),
      ['first', 'second', 'answer to first', 'answer to second'],
    )
    assert.equal((await me.messages(elsewhere.sessionId)).length, 2)
  })

  it('killed at any moment, every accepted message is there and is answered once', async () => {
    endpoint.respond = (request, response) => say(response, `answer to ${request.messages.at(-1)!.content}`)
    const accepted: { taskId: string; sessionId: string; text: string }[] = []
    for (let round = 0; round < 3; round += 1) {
      const me = await startProcess()
      const { sessionId } = await me.send(`opening ${round}`)
      const sending = Array.from({ length: 4 }, async (_, sender) => {
        for (let number = 0; ; number += 1) {
          const text = `${round} ${sender} ${number}`
          const answer = await me.call('POST', '/chat', { message: text, sessionId }).catch(() => undefined)
          if (answer?.status !== 202) return
          accepted.push({ ...answer.body, text })
        }
      })
      const enough = accepted.length + 10 + round * 7
      await waitFor('some messages are accepted', () => accepted.length > enough)
      await kill()
      await Promise.all(sending)
    }
    const me = await startProcess()
    for (const { taskId } of accepted) assert.equal((await me.finished(taskId)).status, 'succeeded')
    await waitFor('nothing is left to do', async () => (await me.expect(200, 'GET', '/tasks/active')).items.length === 0)
    for (const sessionId of new Set(accepted.map(message => message.sessionId))) {
      const messages = []
      for (let cursor = ''; ;) {
        const page = await me.expect(200, 'GET', `/sessions/${sessionId}/messages?limit=200${cursor}`)
        messages.push(...(page.items as { role: string; content: string }[]))
        if (!page.hasMore) break
        cursor = `&cursor=${page.nextCursor}`
      }
      const asked = messages.filter(({ role }) => role === 'user').map(({ content }) => content)
      const answered = messages.filter(({ role }) => role === 'assistant').map(({ content }) => content)
      assert.equal(new Set(asked).size, asked.length, 'no message twice')
      assert.deepEqual(answered.toSorted(), asked.map(text => `answer to ${text}`).toSorted())
      for (const { text } of accepted.filter(message => message.sessionId === sessionId)) assert.ok(asked.includes(text), text)
    }
  })

  it('stopped in the middle of an answer, it lets go after the grace time, and the next one answers', async () => {
    endpoint.respond = () => undefined
    const settings = { ...providerSettings(endpoint), 'Service:Chat:StopGraceMs': '50' }
    let gateway = await startConversations({ settings, dataDir })
    const { taskId, sessionId } = await (await admin(gateway)).send('hello')
    await waitFor('the model is asked', () => endpoint.requests.length === 1)
    await gateway.stop({ keep: true })
    await waitFor('the request to be given up', () => endpoint.abandoned === 1)
    endpoint.respond = (_request, response) => say(response, 'here again')
    gateway = await startConversations({ settings, dataDir })
    try {
      const me = await admin(gateway)
      assert.equal((await me.finished(taskId)).status, 'succeeded')
      assert.deepEqual(
        (await me.messages(sessionId)).map(({ content }) => content),
        ['hello', 'here again'],
      )
    } finally {
      await gateway.stop({ keep: true })
    }
  })

  it('stopped, it finishes what is answered within the grace time', async () => {
    let answer: (() => void) | undefined
    endpoint.respond = (_request, response) => {
      answer = () => say(response, 'just in time')
    }
    const settings = providerSettings(endpoint)
    let gateway = await startConversations({ settings, dataDir })
    const { taskId } = await (await admin(gateway)).send('hello')
    const answerNow = await waitFor('the model is asked', () => answer)
    const stopped = gateway.stop({ keep: true })
    answerNow()
    await stopped
    gateway = await startConversations({ settings, dataDir })
    try {
      assert.equal((await (await admin(gateway)).expect(200, 'GET', `/tasks/${taskId}`)).status, 'succeeded')
      assert.equal(endpoint.requests.length, 1)
    } finally {
      await gateway.stop({ keep: true })
    }
  })
})

describe('gateways that share a store', () => {
  let store: Store
  let directory: string
  const owner = { tenant: null, userId: 'usr_1' }
  const runners: { runner: TaskRunner; holder: Holder }[] = []

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'shared-test-'))
    store = await openSqliteStore({ file: join(directory, 'store.db') })
  })
  afterEach(async () => {
    for (const { runner, holder } of runners.splice(0)) {
      await runner.stop()
      holder.close()
    }
    await store.close()
    await rm(directory, { recursive: true })
  })

  const open = async () => {
    const handles = {
      sessions: scoped(store.collection('chat.sessions', collections.sessions), collections.sessions),
      messages: scoped(store.collection('chat.messages', collections.messages), collections.messages),
      tasks: scoped(store.collection('chat.tasks', collections.tasks), collections.tasks),
    }
    await store.ready()
    return handles
  }

  const task = (id: string, sessionId: string, turn: number, more: Partial<TaskRow> = {}): TaskRow => ({
    id,
    sessionId,
    agentId: 'agt_1',
    turn,
    title: id,
    status: 'queued',
    stage: 'active',
    message: { content: id },
    opensSession: turn === 1,
    attempts: 0,
    createdAt: new Date().toISOString(),
    updatedAt: new Date().toISOString(),
    ...more,
  })

  const startRunner = async (run: (id: string, by: number) => Promise<void>, by: number): Promise<void> => {
    const handles = await open()
    const holder = new Holder()
    const runner = new TaskRunner({
      ledger: new TaskLedger(handles, holder, () => 1),
      tasks: handles.tasks,
      holder,
      log: createLog({ level: 'silent' }),
      concurrency: () => 3,
      stopGraceMs: () => 0,
      run: async ({ id }) => {
        await run(id, by)
        return {
          status: 'succeeded',
          messages: [{ role: 'assistant', content: `answer to ${id}` }],
          text: '',
          at: new Date().toISOString(),
        }
      },
      onSettled: () => undefined,
    })
    runners.push({ runner, holder })
    runner.start()
  }

  const finished = async (count: number) => {
    const { tasks } = await open()
    await waitFor('every task is done', async () => (await tasks.everyone.count({ status: 'succeeded' })) === count)
  }

  it('run every task once between them, those of one session in order', async () => {
    const { tasks, sessions } = await open()
    for (let session = 0; session < 10; session += 1) {
      await sessions.for(owner).insertOne({ id: `ses_${session}`, title: '', agentId: 'agt_1', turns: 0, createdAt: '', updatedAt: '' })
      for (let turn = 1; turn <= 4; turn += 1) await tasks.for(owner).insertOne(task(`tsk_${session}_${turn}`, `ses_${session}`, turn))
    }
    const runs: { id: string; by: number }[] = []
    const busy = new Set<string>()
    const run = async (id: string, by: number): Promise<void> => {
      const session = id.slice(0, -2)
      assert.equal(busy.has(session), false, `${session} is answered twice at once`)
      busy.add(session)
      runs.push({ id, by })
      // One alone would be through before the other has begun, on a busy machine.
      await waitFor('the other one', () => new Set(runs.map(({ by: one }) => one)).size === 2)
      busy.delete(session)
    }
    await Promise.all([startRunner(run, 1), startRunner(run, 2)])
    await finished(40)
    assert.equal(runs.length, 40)
    for (let session = 0; session < 10; session += 1)
      assert.deepEqual(
        runs.filter(({ id }) => id.startsWith(`tsk_${session}_`)).map(({ id }) => id.at(-1)),
        ['1', '2', '3', '4'],
      )
    assert.equal(new Set(runs.map(({ by }) => by)).size, 2, 'both take part')
  })

  it('take over what a gateway that is gone was running, and finish what it had decided without running it again', async () => {
    const { tasks, sessions, messages } = await open()
    for (const id of ['ses_a', 'ses_b', 'ses_c', 'ses_d'])
      await sessions.for(owner).insertOne({ id, title: '', agentId: 'agt_1', turns: 0, createdAt: '', updatedAt: '' })
    const past = { by: 'another-host 1 run_1', until: new Date(Date.now() - 1).toISOString() }
    const future = { by: 'another-host 1 run_2', until: new Date(Date.now() + 60_000).toISOString() }
    const outcome = {
      status: 'succeeded' as const,
      messages: [{ role: 'assistant' as const, content: 'decided' }],
      text: '',
      at: new Date().toISOString(),
    }
    await tasks
      .for(owner)
      .insertMany([
        task('tsk_a', 'ses_a', 1, { status: 'running', lease: past, attempts: 1 }),
        task('tsk_b', 'ses_b', 1, { status: 'settling', lease: past, attempts: 1, outcome }),
        task('tsk_c', 'ses_c', 1, { status: 'running', lease: future, attempts: 1 }),
        task('tsk_d', 'ses_d', 1, { status: 'running', lease: past, attempts: 3 }),
      ])
    const runs: string[] = []
    await startRunner(id => {
      runs.push(id)
      return Promise.resolve()
    }, 1)
    await finished(2)
    assert.deepEqual(runs, ['tsk_a'])
    const [decided] = await messages.for(owner).find({ sessionId: 'ses_b' })
    assert.equal(decided?.content, 'decided')
    assert.equal((await tasks.for(owner).findOne({ id: 'tsk_c' }))?.lease?.by, future.by)
    const givenUp = await waitFor('the task that killed three gateways is given up', () =>
      tasks.for(owner).findOne({ id: 'tsk_d', status: 'failed' }),
    )
    assert.equal(givenUp.error?.code, 'internal_error')
  })

  it('drop the outcome of a task that was cancelled elsewhere', async () => {
    const { tasks, sessions, messages } = await open()
    await sessions.for(owner).insertOne({ id: 'ses_a', title: '', agentId: 'agt_1', turns: 0, createdAt: '', updatedAt: '' })
    await tasks.for(owner).insertOne(task('tsk_a', 'ses_a', 1))
    let release = (): void => undefined
    const running = new Promise<void>(resolve => (release = resolve))
    let started = false
    await startRunner(async () => {
      started = true
      await running
    }, 1)
    await waitFor('it runs', () => started)
    const elsewhere = new TaskLedger(await open(), new Holder(), () => 1)
    const cancelled = await elsewhere.decideCancelled('tsk_a', {
      status: 'cancelled',
      messages: [],
      text: '',
      at: new Date().toISOString(),
    })
    release()
    await elsewhere.settle(cancelled!)
    const { runner } = runners[0]!
    await runner.stop()
    assert.equal((await tasks.for(owner).findOne({ id: 'tsk_a' }))?.status, 'cancelled')
    assert.equal(await messages.for(owner).count({ sessionId: 'ses_a' }), 0)
  })
})
