import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { Peer, rejected, temporary, type Handlers } from '../../sdk/rpc.js'
import { alone, code, handlers, pair, request, until, type Methods, type TestPeer } from './peers.js'

describe('the JSON-RPC peer', () => {
  it('calls in both directions over one connection', async () => {
    const { left, right } = pair()
    const answers = await Promise.all([left.request('echo', { value: 1 }), right.request('echo', { value: 'zwei' })])
    assert.deepEqual(answers, [{ value: 1 }, { value: 'zwei' }])
  })

  it('notifies without an answer', async () => {
    const heard: string[] = []
    const { left } = pair({}, { listeners: { note: ({ text }) => heard.push(text) } })
    assert.equal(left.notify('note', { text: 'hello' }), true)
    await until(() => heard.length === 1)
    assert.deepEqual(heard, ['hello'])
  })

  it('keeps 10,000 calls apart', async () => {
    const { left } = pair({ maxWaiting: 10_000 })
    const answers = await Promise.all(Array.from({ length: 10_000 }, (_, value) => left.request('echo', { value })))
    assert.ok(answers.every(({ value }, index) => value === index))
  })

  describe('errors of a handler', () => {
    const fail: Handlers<Methods>['fail'] = ({ how }) => {
      if (how === 'rejected') throw rejected('no such chat')
      if (how === 'temporary') throw temporary('slow down', { retryAfterMs: 1500 })
      throw new Error('inner detail')
    }

    it('reach the caller with code and data', async () => {
      const { left } = pair({}, { handlers: { fail } })
      await assert.rejects(left.request('fail', { how: 'rejected' }), {
        code: RpcErrorCode.rejected,
        message: 'no such chat',
        retryable: false,
      })
      await assert.rejects(left.request('fail', { how: 'temporary' }), {
        code: RpcErrorCode.temporary,
        retryable: true,
        retryAfterMs: 1500,
      })
    })

    it('that are no RpcError are hidden unless exposed, and always reported', async () => {
      const reported: unknown[] = []
      const onHandlerError = (method: string, error: unknown): void => void reported.push([method, (error as Error).message])
      const hidden = pair({}, { handlers: { fail }, onHandlerError }).left
      await assert.rejects(hidden.request('fail', { how: 'x' }), { code: RpcErrorCode.internalError, message: 'fail failed' })
      const exposed = pair({}, { handlers: { fail }, onHandlerError, exposeErrors: true }).left
      await assert.rejects(exposed.request('fail', { how: 'x' }), { message: 'fail failed: inner detail' })
      assert.deepEqual(reported, Array(2).fill(['fail', 'inner detail']))
    })

    it('of odd shapes are read as far as they go', async () => {
      for (const error of ['"text"', '{}', '{"code":"x","message":5}', '{"code":1.5,"data":{"retryAfterMs":-1,"retryable":"yes"}}']) {
        const { peer, send, lines } = alone()
        const call = peer.request('echo', { value: 1 })
        await until(() => lines.length === 1)
        send(`{"jsonrpc":"2.0","id":1,"error":${error}}\n`)
        await assert.rejects(call, { code: RpcErrorCode.internalError, retryable: false, retryAfterMs: undefined })
      }
    })
  })

  describe('timeouts', () => {
    it('reject, retryable, and tell the other side to stop', async () => {
      const { left, right } = pair()
      await assert.rejects(left.request('wait', {}, { timeoutMs: 20 }), {
        code: RpcErrorCode.timeout,
        retryable: true,
        message: /wait was not answered within 20 ms/,
      })
      await until(() => right.stats.running === 0)
    })

    it('of many calls each come in their own time', async () => {
      const { left } = pair()
      const order: number[] = []
      const begin = (timeoutMs: number): Promise<unknown> => left.request('wait', {}, { timeoutMs }).catch(() => order.push(timeoutMs))
      const long = [begin(600_000), begin(400_000)]
      await begin(20)
      await begin(10)
      assert.deepEqual([order, left.stats.pending], [[20, 10], 2])
      left.close('over')
      await Promise.all(long)
    })

    it('start again with progress, which the caller hears', async () => {
      const heard: (number | undefined)[] = []
      const slow: Handlers<Methods>['wait'] = async (_params, { progress }) => {
        for (let step = 1; step <= 4; step++) {
          await sleep(400)
          progress(step * 25)
        }
        return { done: true }
      }
      const { left } = pair({}, { handlers: { wait: slow } })
      const answer = await left.request('wait', {}, { timeoutMs: 1_500, onProgress: ({ percent }) => heard.push(percent) })
      assert.deepEqual([answer, heard], [{ done: true }, [25, 50, 75, 100]])
    })

    it('come at the hard end whatever the progress', async () => {
      const chatty: Handlers<Methods>['wait'] = async (_params, { progress, signal }) => {
        while (!signal.aborted) {
          await sleep(10)
          progress()
        }
        return { done: true }
      }
      const { left, right } = pair({}, { handlers: { wait: chatty } })
      await assert.rejects(left.request('wait', {}, { timeoutMs: 150, hardTimeoutMs: 300 }), code(RpcErrorCode.timeout))
      await until(() => right.stats.running === 0)
    })
  })

  describe('cancellation', () => {
    it('rejects at once, aborts the handler, and its answer is not sent', async () => {
      const { left, right } = pair()
      const controller = new AbortController()
      const call = left.request('wait', {}, { signal: controller.signal })
      await until(() => right.stats.running === 1)
      controller.abort()
      await assert.rejects(call, code(RpcErrorCode.cancelled))
      await until(() => right.stats.running === 0)
      await left.request('echo', { value: 1 })
      assert.equal(left.stats.lateReplies, 0)
    })

    it('before the call sends nothing', async () => {
      const { peer, lines } = alone()
      await assert.rejects(peer.request('echo', { value: 1 }, { signal: AbortSignal.abort() }), code(RpcErrorCode.cancelled))
      assert.deepEqual(lines, [])
    })

    it('of a call that waits for a place sends nothing', async () => {
      const { peer, lines } = alone({ maxPending: 1 })
      const first = peer.request('echo', { value: 1 })
      const controller = new AbortController()
      const second = peer.request('echo', { value: 2 }, { signal: controller.signal })
      controller.abort()
      await assert.rejects(second, code(RpcErrorCode.cancelled))
      peer.close('over')
      await assert.rejects(first)
      assert.deepEqual([lines.length, peer.unsentBytes], [1, 0])
    })

    it('leaves no listener behind on a shared signal', async () => {
      const { left } = pair()
      const { signal } = new AbortController()
      let listeners = 0
      const counted = new Proxy(signal, {
        get(target, key) {
          if (key === 'addEventListener') listeners++
          if (key === 'removeEventListener') listeners--
          const value: unknown = Reflect.get(target, key, target)
          return typeof value === 'function' ? (value.bind(target) as unknown) : value
        },
      })
      await left.request('echo', { value: 1 }, { signal: counted })
      assert.equal(listeners, 0)
    })

    it('of odd ids is ignored', async () => {
      const { send, lines } = alone()
      for (const params of ['null', '{}', '{"id":{}}', '{"id":77}', '[]', '"x"'])
        send(`{"jsonrpc":"2.0","method":"$/cancel","params":${params}}\n`)
      send(request(1, 'echo', { value: 1 }))
      await until(() => lines.length === 1)
    })
  })

  describe('limits', () => {
    it('let calls wait for a place, in order, then refuse with busy', async () => {
      const { peer, send, lines } = alone({ maxPending: 2, maxWaiting: 3 })
      const calls = Array.from({ length: 5 }, (_, value) => peer.request('echo', { value }))
      await assert.rejects(peer.request('echo', { value: 5 }), { code: RpcErrorCode.busy, retryable: true, retryAfterMs: 1000 })
      assert.deepEqual([peer.stats.pending, peer.stats.waiting], [2, 3])
      for (let id = 1; id <= 5; id++) {
        await until(() => lines.length >= id)
        send(`{"jsonrpc":"2.0","id":${id},"result":${id}}\n`)
      }
      assert.deepEqual(await Promise.all(calls), [1, 2, 3, 4, 5])
      assert.deepEqual(
        lines.map(({ id }) => id),
        [1, 2, 3, 4, 5],
      )
    })

    it('count the time that a call waits for a place', async () => {
      const { peer } = alone({ maxPending: 1 })
      const first = peer.request('echo', { value: 1 })
      await assert.rejects(peer.request('echo', { value: 2 }, { timeoutMs: 20 }), {
        code: RpcErrorCode.timeout,
        message: /found no free place/,
      })
      peer.close('over')
      await assert.rejects(first)
    })

    it('are passed by urgent calls', async () => {
      const { peer, lines } = alone({ maxPending: 1, maxWaiting: 0 })
      const calls = [peer.request('echo', { value: 1 }), peer.request('echo', { value: 2 }, { urgent: true })]
      await until(() => lines.length === 2)
      peer.close('over')
      await Promise.allSettled(calls)
    })

    it('refuse the other side above maxRunning, but not its ping', async () => {
      const { send, lines } = alone({ maxRunning: 2, alwaysServed: ['echo'] })
      send(request(1, 'wait') + request(2, 'wait') + request(3, 'wait') + request(4, 'echo', { value: 4 }))
      await until(() => lines.length === 2)
      assert.equal((lines[0] as { error: { code: number } }).error.code, RpcErrorCode.busy)
      assert.deepEqual([lines[0]!.id, lines[1]!.id], [3, 4])
    })

    it('make a child that never reads its stdin visible, and bound what is kept for it', async () => {
      const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1000)'], { stdio: ['pipe', 'pipe', 'inherit'] })
      const peer: TestPeer = new Peer({ input: child.stdout, output: child.stdin, maxUnsentBytes: 1_000_000 })
      const calls = Array.from({ length: 20 }, () => peer.request('echo', { value: 'x'.repeat(100_000) }))
      const settled = Promise.allSettled(calls)
      assert.ok(peer.unsentBytes > 1_000_000 && peer.unsentBytes < 1_200_000, String(peer.unsentBytes))
      await assert.rejects(peer.request('echo', { value: 1 }), { code: RpcErrorCode.busy, message: /does not read, \d+ bytes are unsent/ })
      assert.equal(peer.notify('note', { text: 'x' }), false)
      child.kill('SIGKILL')
      const results = await settled
      assert.ok(results.every(result => result.status === 'rejected'))
      const refused = results.filter(result => code(RpcErrorCode.busy)(result.reason)).length
      assert.ok(refused >= 4 && refused <= 10, `${refused} of 20 were refused`)
    })

    it('refuse the work of a side that asks much and reads nothing', async () => {
      const input = new PassThrough()
      const output = new PassThrough({ highWaterMark: 1 })
      const peer: TestPeer = new Peer({ input, output, handlers, maxUnsentBytes: 100_000 })
      for (let id = 0; id < 50; id++) input.write(request(id, 'echo', { value: 'x'.repeat(40_000) }))
      input.write(request('last', 'echo', { value: 1 }))
      input.end()
      await until(() => peer.closed !== undefined)
      let text = ''
      output.on('data', chunk => (text += String(chunk)))
      await until(() => text.includes('"last"'))
      const answers = text.trim().split('\n')
      assert.ok(answers.filter(answer => answer.includes('"result"')).length <= 4)
      assert.match(answers.at(-1)!, /"id":"last","error":\{"code":-32000/)
    })

    it('close the connection when far too much is unsent', async () => {
      const input = new PassThrough()
      const output = new PassThrough({ highWaterMark: 1 })
      const peer: TestPeer = new Peer({ input, output, handlers, maxUnsentBytes: 10_000 })
      input.write(request(1, 'echo', { value: 'x'.repeat(40_000) }))
      await until(() => peer.closed !== undefined)
      assert.equal(peer.closed, 'the other side does not read')
    })
  })

  describe('the end of a connection', () => {
    it('rejects everything pending and waiting at once, retryable', async () => {
      const reasons: string[] = []
      const { left } = pair({ maxPending: 3, onClose: reason => reasons.push(reason) })
      const calls = Array.from({ length: 10 }, () => left.request('wait', {}))
      left.close('stopped by the test')
      left.close('again')
      for (const call of calls) {
        await assert.rejects(call, {
          code: RpcErrorCode.connectionClosed,
          retryable: true,
          message: 'The connection was closed: stopped by the test',
        })
      }
      assert.deepEqual(reasons, ['stopped by the test'])
      await assert.rejects(left.request('echo', { value: 1 }), code(RpcErrorCode.connectionClosed))
      assert.equal(left.notify('note', { text: 'x' }), false)
      assert.deepEqual([left.stats.pending, left.stats.waiting, left.unsentBytes], [0, 0, 0])
    })

    it('aborts running handlers', async () => {
      let aborted = false
      const { send, peer } = alone({
        handlers: {
          wait: (_params, { signal }) =>
            new Promise((_resolve, reject) => {
              signal.addEventListener('abort', () => {
                aborted = true
                reject(signal.reason as Error)
              })
            }),
        },
      })
      send(request(1, 'wait'))
      await until(() => peer.stats.running === 1)
      peer.close('over')
      assert.equal(aborted, true)
    })

    it('is noticed when the other side goes, even in the middle of a frame', async () => {
      const { peer, input } = alone()
      const call = peer.request('echo', { value: 1 })
      input.write('{"jsonrpc":"2.0","id":1,"resu')
      input.end()
      await assert.rejects(call, code(RpcErrorCode.connectionClosed))
      assert.equal(peer.closed, 'the other side ended the connection')
    })

    it('is noticed when a child is killed while calls are under way', async () => {
      const child = spawn(process.execPath, ['-e', 'process.stdin.resume()'], { stdio: ['pipe', 'pipe', 'inherit'] })
      const peer: TestPeer = new Peer({ input: child.stdout, output: child.stdin })
      const calls = Promise.allSettled(Array.from({ length: 300 }, () => peer.request('wait', {})))
      child.kill('SIGKILL')
      await once(child, 'exit')
      assert.ok((await calls).every(result => code(RpcErrorCode.connectionClosed)((result as PromiseRejectedResult).reason)))
    })

    it('sends what was said before it', async () => {
      const { peer, lines } = alone()
      peer.notify('note', { text: 'last words' })
      peer.close('over')
      await until(() => lines.length === 1)
    })
  })

  it('lets the process end while nothing is under way', async () => {
    const script = `import { Peer } from './sdk/rpc.ts'; import { PassThrough } from 'node:stream'
      const a = new PassThrough(), b = new PassThrough()
      new Peer({ input: b, output: a, handlers: { echo: (p) => p } })
      const peer = new Peer({ input: a, output: b })
      await peer.request('echo', { value: 1 })
      await peer.request('none', {}, { timeoutMs: 50 }).catch((error) => console.log(error.code))`
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    let text = ''
    child.stdout.on('data', chunk => (text += String(chunk)))
    const [exitCode] = (await once(child, 'close')) as [number]
    assert.deepEqual([exitCode, text.trim()], [0, String(RpcErrorCode.methodNotFound)])
  })
})
