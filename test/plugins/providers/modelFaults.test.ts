import assert from 'node:assert/strict'
import { waitFor } from '../../support/waitFor.js'
import type { Speaker } from '../chat/conversation.js'
import { startProviders, type Installed, type Providers } from './installed.js'

type Script = (string | number | object)[][]

describe("a model provider plugin's faults", () => {
  let gateway: Providers
  let me: Speaker
  let plugin: Installed
  let agentId: string

  afterEach(() => gateway.stop())

  const start = async (settings: Record<string, string> = {}): Promise<void> => {
    gateway = await startProviders({ settings })
    me = gateway.me
    plugin = await gateway.add('scripted', 'scripted', 'ModelProvider')
    agentId = (await me.expect(201, 'POST', '/agents', { name: 'Agent', model: 'scripted/x' })).id
  }
  const send = (script: Script) => me.send(JSON.stringify(script), { agentId })
  const ask = async (script: Script): Promise<string> => (await me.ask(JSON.stringify(script), { agentId })).reply
  const failure = async (script: Script): Promise<string> => {
    const { taskId } = await send(script)
    const { status, error } = await me.finished(taskId)
    assert.deepEqual([status, error?.code], ['failed', 'upstream_unavailable'])
    return error.message as string
  }

  const lies: Record<string, [Script, RegExp]> = {
    'no object': [[['result', ['text']]], /made a mistake: its answer is not an object/],
    'a number for a text': [[['result', { text: 7 }]], /the text of its answer is not a text/],
    'a number for a piece': [[['say', 7], ['untilCancelled']], /a piece of its answer is not a text/],
    'broken Unicode': [[['result', { text: 'a\ud800' }]], /its text is not valid Unicode/],
    'tool calls that are no list': [[['result', { toolCalls: {} }]], /its toolCalls are not a list/],
    'a tool call that is none': [[['result', { toolCalls: ['x'] }]], /a tool call of it is not an object/],
    'a tool call without an id': [[['result', { toolCalls: [{ name: 'x', parameters: {} }] }]], /the id of a tool call/],
    'a tool call without parameters': [[['result', { toolCalls: [{ id: '1', name: 'x' }] }]], /the parameters of a tool call/],
    'two tool calls with one id': [
      [['result', { toolCalls: Array.from({ length: 2 }, () => ({ id: '1', name: 'x', parameters: {} })) }]],
      /two of its tool calls have the same id/,
    ],
    'a hundred tool calls': [
      [['result', { toolCalls: Array.from({ length: 100 }, (_, id) => ({ id: String(id), name: 'x', parameters: {} })) }]],
      /more than 64 tool calls/,
    ],
    'half a token': [[['result', { text: 'x', usage: { inputTokens: 0.5 } }]], /its usage does not hold whole numbers/],
    nothing: [[['result', {}]], /gave an empty answer/],
    'too long a text': [[['huge', 2]], /its answer is longer than 1048576 characters/],
    'too many pieces': [[['sayMuch', 100_000, 11], ['untilCancelled']], /its answer is longer than 1048576 characters/],
    'a refusal': [[['error', { code: -32004, message: 'the key is wrong' }]], /"scripted" failed: the key is wrong/],
    'a mistake of its own': [[['error', { code: -32603, message: 'x is undefined' }]], /"scripted" failed: x is undefined/],
  }
  describe('in what it answers', () => {
    it('fail the task, and nothing else', async () => {
      await start()
      for (const [what, [script, message]] of Object.entries(lies)) {
        assert.match(await failure(script), message, what)
        assert.equal(
          await ask([
            ['say', 'still '],
            ['result', { text: 'here' }],
          ]),
          'still here',
          what,
        )
      }
      assert.equal((await gateway.call('GET', '/plugins/scripted', { token: gateway.token })).body.restarts, 0)
      assert.ok((await plugin.noted('cancelled')).length >= 2, 'what cannot be used any more is given up')
    })

    it('do not reach another answer: pieces of no answer or of one that is over, and lines that are no messages', async () => {
      await start()
      const stray: Script = [
        ['sayAs', 'gen_unknown', 'lost'],
        ['sayAs', '__proto__', 'lost'],
        ['sayAs', 7, 'lost'],
        ['raw', 'not json'],
      ]
      assert.equal(await ask([...stray, ['say', 'kept'], ['result', {}], ['sleep', 50], ['say', 'late'], ...stray]), 'kept')
      assert.equal(await ask([['result', { text: 'next' }]]), 'next')
    })

    it('end the process when it is one line without an end, and the task fails after a second try', async () => {
      await start()
      assert.match(await failure([['huge', 17]]), /The plugin scripted ended while it worked on this/)
      await plugin.until('ready')
      assert.equal(await ask([['result', { text: 'again' }]]), 'again')
      assert.equal((await plugin.noted('calls')).length, 3)
    })
  })

  describe('in when it answers', () => {
    it('fail the task after a silence; pieces and progress are signs of life', async () => {
      await start({ 'Service:Models:Plugins:SilenceMs': '3000' })
      assert.match(await failure([['say', 'a'], ['untilCancelled']]), /"scripted" failed: it was silent for 3 s/)
      await waitFor('the plugin is told', async () => (await plugin.noted('cancelled')).length === 1)
      // Longer than that altogether, though nothing in it is nearly as long.
      const slowly = Array.from({ length: 9 }, () => [['sleep', 200], ['progress'], ['sleep', 200], ['say', 'a']] as Script).flat()
      assert.equal(await ask([...slowly, ['result', {}]]), 'a'.repeat(9))
    })

    it('fail the task at the end of its time, whatever signs of life there are', async () => {
      await start({ 'Service:Models:Plugins:TimeoutMs': '700' })
      const lively = Array.from(
        { length: 50 },
        () =>
          [
            ['sleep', 50],
            ['say', 'a'],
          ] as Script,
      ).flat()
      assert.match(await failure([...lively, ['result', {}]]), /no answer within 0\.7 s/)
    })

    it('cost nothing when the task is cancelled: the plugin is told to give up', async () => {
      await start()
      const { taskId, sessionId } = await send([['say', 'a'], ['untilCancelled']])
      await waitFor('the question', async () => (await plugin.noted('calls')).length === 1)
      assert.equal((await me.expect(200, 'POST', `/tasks/${taskId}/cancel`)).status, 'cancelled')
      await waitFor('the plugin is told', async () => (await plugin.noted('cancelled')).length === 1)
      assert.deepEqual(
        (await me.messages(sessionId)).map(({ role }) => role),
        ['user', 'system'],
      )
    })

    it('are waited out when it asks for patience, as long as it says', async () => {
      await start()
      const busy = { code: -32005, message: 'too many requests', data: { retryable: true, retryAfterMs: 10 } }
      assert.equal(
        await ask([
          ['failOnce', 'first', busy],
          ['failOnce', 'second', busy],
          ['result', { text: 'at last' }],
        ]),
        'at last',
      )
      assert.match(await failure([['error', busy]]), /"scripted" failed: too many requests/)
      assert.equal((await plugin.noted('calls')).length, 3 + 4)
    })
  })

  describe('in the middle of an answer', () => {
    it('lose nothing when it crashes: it is asked again, and what was said before is not said twice', async () => {
      await start()
      assert.equal(
        await ask([
          ['say', 'half '],
          ['crashOnce', 'crashed'],
          ['say', 'whole'],
          ['result', { text: '.' }],
        ]),
        'half whole.',
      )
      assert.equal((await plugin.noted('calls')).length, 2)
    })

    it('fail the task when it crashes again over the same question, and answers the next one', async () => {
      await start()
      assert.match(await failure([['say', 'a'], ['crash']]), /"scripted" failed: The plugin scripted ended while it worked on this/)
      assert.equal((await plugin.noted('calls')).length, 2)
      await plugin.until('ready')
      assert.equal(await ask([['result', { text: 'fine' }]]), 'fine')
    })

    it('run no tool twice when it crashes behind one', async () => {
      await start()
      const remember = { id: '1', name: 'memory_remember', parameters: { text: 'Alice likes tea' } }
      // The fixture answers a tool's result by itself; its process is ended before that.
      const { taskId, sessionId } = await send([
        ['result', { toolCalls: [remember, { ...remember, id: '2', name: 'time_now', parameters: {} }] }],
      ])
      assert.equal((await me.finished(taskId)).status, 'succeeded')
      const calls = await plugin.noted('calls')
      assert.deepEqual([calls.length, calls[1]!.split(' ')[1]], [2, 'tool'])
      assert.deepEqual(
        (await me.messages(sessionId)).map(({ role }) => role),
        ['user', 'tool', 'tool', 'assistant'],
      )
    })

    it('lose nothing when it is reloaded: the old version finishes, the new one answers what comes after', async () => {
      await start()
      const { taskId, sessionId } = await send([['sayVersion'], ['hold'], ['sayVersion'], ['result', {}]])
      await waitFor('the question', async () => (await plugin.noted('calls')).length === 1)
      await plugin.install('2.0.0')
      assert.equal(await ask([['sayVersion'], ['result', {}]]), '2.0.0')
      await plugin.leave('go')
      assert.equal((await me.finished(taskId)).status, 'succeeded')
      assert.equal((await me.messages(sessionId)).at(-1)!.content, '1.0.01.0.0')
    })

    it('lose nothing when an administrator restarts it: the new process is asked again', async () => {
      await start()
      const { taskId, sessionId } = await send([['say', 'a'], ['hold'], ['result', {}]])
      await waitFor('the question', async () => (await plugin.noted('calls')).length === 1)
      await plugin.act('restart')
      await waitFor('the question again', async () => (await plugin.noted('calls')).length === 2)
      await plugin.leave('go')
      assert.equal((await me.finished(taskId)).status, 'succeeded')
      assert.equal((await me.messages(sessionId)).at(-1)!.content, 'a')
    })

    it('fail the task at once when it is stopped, removed, or the experiment is switched off', async () => {
      await start()
      const failsWhen = async (act: () => Promise<unknown>, message: RegExp): Promise<void> => {
        const before = (await plugin.noted('calls')).length
        const { taskId } = await send([
          ['say', 'a'],
          ['hold', 'never'],
        ])
        await waitFor('the question', async () => (await plugin.noted('calls')).length === before + 1)
        await act()
        const { error } = await me.finished(taskId)
        assert.equal(error.code, 'upstream_unavailable')
        assert.match(error.message, message)
      }
      await failsWhen(() => gateway.configure({ Plugins: { Experimental: false } }), /Service:Plugins:Experimental is off/)
      await gateway.configure({ Plugins: { Experimental: true } })
      await failsWhen(() => plugin.act('stop'), /the plugin scripted does not run: stopped by an administrator/)
      const { error } = await me.expect(502, 'POST', '/chat', { message: '[]', agentId })
      assert.match(error.message, /stopped by an administrator/)
      await plugin.act('restart')
      await failsWhen(() => plugin.remove(), /its files are gone|there is no such plugin any more/)
    })

    it('lose nothing when the gateway itself is restarted: the answer waits for the plugin to be found and started', async () => {
      await start()
      const { taskId, sessionId } = await send([['say', 'a'], ['hold'], ['result', { text: 'b' }]])
      await waitFor('the question', async () => (await plugin.noted('calls')).length === 1)
      await gateway.stop({ keep: true })
      const again = await startProviders({ dataDir: gateway.dataDir })
      gateway = again
      await plugin.leave('go')
      assert.equal((await again.me.finished(taskId)).status, 'succeeded')
      assert.equal((await again.me.messages(sessionId)).at(-1)!.content, 'ab')
    })
  })
})
