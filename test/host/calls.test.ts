import assert from 'node:assert/strict'
import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'
import { waitFor } from '../support/waitFor.js'
import { startHost, type TestHost } from './support.js'

describe('calls of a plugin process', () => {
  let host: TestHost
  beforeEach(async () => {
    host = await startHost({ tiers: ['node-permission'] })
  })
  afterEach(() => host.stop())

  const params = { path: '', name: 'x', extension: '.txt', mimeType: 'text/plain', size: 1, outputDir: '' }
  const code = (error: unknown): number | undefined => (error instanceof RpcError ? error.code : undefined)

  it('are 256 at once, then wait, then are refused as busy; all of them end at once when it dies', async () => {
    await host.add('silent', 'hang')
    const { current } = await host.until('silent', 'ready')
    const results: Promise<unknown>[] = []
    const call = () => host.extract('silent', { timeoutMs: 60_000 }).catch((error: unknown) => error)
    for (let n = 0; n < 256 + 1_024; n++) results.push(call())
    await waitFor('the calls', () => current!.process.stats.waiting === 1_024)
    assert.equal(current!.process.stats.pending, 256)
    const refused = await call()
    assert.ok(refused instanceof RpcError && refused.code === RpcErrorCode.busy && refused.retryable, String(refused))
    assert.ok((refused.retryAfterMs ?? 0) > 0)
    // Its ping passes them.
    assert.deepEqual(await current!.process.request('plugin.ping', {}, { urgent: true }), {})
    process.kill(current!.process.pid, 'SIGKILL')
    // Had they waited for their own limits, they would have timed out.
    for (const error of await Promise.all(results))
      assert.ok(error instanceof RpcError && error.code === RpcErrorCode.connectionClosed && error.retryable, String(error))
  })

  it('end in their time, which progress extends, up to a hard end', async () => {
    await host.add('slow', 'only-progress')
    const { current } = await host.until('slow', 'ready')
    const started = performance.now()
    let heard = 0
    const options = { timeoutMs: 3_000, hardTimeoutMs: 4_000, onProgress: () => (heard += 1) }
    const error = await current!.process.request('extractor.extract', params, options).catch((reason: unknown) => reason)
    assert.equal(code(error), RpcErrorCode.timeout)
    assert.ok(performance.now() - started >= 3_900, 'progress did not extend it')
    assert.ok(heard > 3)
    assert.equal(host.core.supervisor('slow')!.current, current)
  })

  it('that are given up or are over hurt nobody when their answers come late', async () => {
    await host.add('late', 'late-reply')
    const { current } = await host.until('late', 'ready')
    assert.equal(code(await host.extract('late', { timeoutMs: 50 }).catch((reason: unknown) => reason)), RpcErrorCode.timeout)
    const end = new AbortController()
    const given = current!.process.request('extractor.extract', params, { signal: end.signal }).catch((reason: unknown) => reason)
    end.abort()
    assert.equal(code(await given), RpcErrorCode.cancelled)
    assert.equal(await host.extract('late', { name: 'a' }), 'v1 read a')
    await waitFor('the late answers', () => current!.process.stats.pending === 0)
    assert.equal(host.core.supervisor('late')!.current, current)
  })
})
