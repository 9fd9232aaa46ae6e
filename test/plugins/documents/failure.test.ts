import assert from 'node:assert/strict'
import { serviceUnavailable } from '../../../core/errors.js'
import { PluginCrashed } from '../../../core/host/crash.js'
import { judge } from '../../../plugins/documents/failure.js'
import { RpcErrorCode } from '../../../sdk/protocol.js'
import { rejected, RpcError, temporary } from '../../../sdk/rpc.js'

describe('an extraction that fails', () => {
  it('costs no try when the gateway itself is in trouble', () => {
    for (const error of [Object.assign(new Error('full'), { code: 'ENOSPC' }), serviceUnavailable('The store cannot write')])
      assert.deepEqual(judge(error), { kind: 'later', delayMs: 30_000, counts: false })
  })

  it('is the fault of the document when the process died of it, and not when the gateway ended that process', () => {
    const closed = new RpcError(RpcErrorCode.connectionClosed, 'closed')
    assert.deepEqual(judge(new PluginCrashed('reader', closed)), { kind: 'crashed' })
    assert.deepEqual(judge(closed), { kind: 'gone' })
  })

  it('is tried again when the plugin asks for that, when it says, within bounds', () => {
    assert.deepEqual(judge(temporary('busy')), { kind: 'later', delayMs: 5_000, counts: true })
    assert.deepEqual(judge(temporary('busy', { retryAfterMs: 100 })), { kind: 'later', delayMs: 100, counts: true })
    assert.deepEqual(judge(temporary('busy', { retryAfterMs: 1e9 })), { kind: 'later', delayMs: 600_000, counts: true })
  })

  it('is final when it was refused, took too long, or the plugin made a mistake', () => {
    for (const error of [rejected('damaged'), new RpcError(RpcErrorCode.timeout, 'late'), new Error('no text')])
      assert.deepEqual(judge(error), { kind: 'final' })
  })
})
