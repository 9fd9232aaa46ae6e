import assert from 'node:assert/strict'
import { rateLimited, serviceUnavailable, validationFailed } from '../../../core/errors.js'
import { readFailure } from '../../../plugins/channels/failure.js'
import { afterFailure, INBOX_RETRY } from '../../../plugins/channels/retryPolicy.js'

describe('what follows the failure of a delivery', () => {
  const last = { attempts: INBOX_RETRY.attempts - 1, crashes: 0 }

  it('is no end of it when the gateway itself is full: it waits as long as it is told, as often as it takes', () => {
    assert.deepEqual(afterFailure(last, readFailure(rateLimited(5)), INBOX_RETRY), { retry: true, delayMs: 5000, ...last })
    assert.deepEqual(afterFailure(last, readFailure(serviceUnavailable('full', 2)), INBOX_RETRY), { retry: true, delayMs: 2000, ...last })
  })

  it('is its end when it is refused for good, or was tried too often', () => {
    assert.equal(afterFailure({ attempts: 0, crashes: 0 }, readFailure(validationFailed([])), INBOX_RETRY).retry, false)
    assert.equal(afterFailure(last, readFailure(new Error('a mistake')), INBOX_RETRY).retry, false)
  })
})
