import assert from 'node:assert/strict'
import { afterCrash, defaultLimits, recentCrashes } from '../../core/host/policy.js'
import { MAX_FRAME_BYTES } from '../../sdk/protocol.js'
import { DEFAULT_TIMEOUT_MS } from '../../sdk/rpc.js'

const second = 1_000

describe('the policy after a crash', () => {
  const delay = (crashes: number[], healthyFor = 0): number => {
    const next = afterCrash(crashes, healthyFor, defaultLimits, 1)
    assert.ok(next.restart)
    return next.delay
  }

  it('waits 1 s, then twice as long each time', () => {
    assert.deepEqual(
      [[0], [0, 1], [0, 1, 2], [0, 1, 2, 3]].map(crashes => delay(crashes)),
      [1, 2, 4, 8].map(s => s * second),
    )
  })

  it('waits 30 s at most, and up to a quarter less, so that restarts do not fall together', () => {
    const patient = { ...defaultLimits, maxCrashes: 50 }
    const crashes = Array.from({ length: 20 }, (_, i) => i)
    assert.deepEqual(afterCrash(crashes, 0, patient, 1), { restart: true, delay: 30 * second })
    assert.deepEqual(afterCrash(crashes, 0, patient, 0), { restart: true, delay: 22.5 * second })
  })

  it('starts over after a minute of health', () => {
    assert.equal(delay([0, 1, 2], 60 * second), second)
    assert.equal(delay([0, 1, 2], 59 * second), 4 * second)
  })

  it('gives up at the fifth crash within five minutes, and forgets older ones', () => {
    assert.deepEqual(afterCrash([1, 2, 3, 4, 5], 0, defaultLimits), { restart: false, crashes: 5 })
    const minute = 60 * second
    assert.ok(afterCrash([0, minute, 2 * minute, 3 * minute, 5 * minute + 1], 0, defaultLimits).restart)
    assert.deepEqual(recentCrashes([0, minute, 5 * minute + 1], 5 * minute + 1, defaultLimits), [minute, 5 * minute + 1])
  })
})

describe('the limits of supervision', () => {
  it('are by default those that administrators and plugin developers are told of', () => {
    assert.equal(DEFAULT_TIMEOUT_MS, 30 * second)
    assert.equal(MAX_FRAME_BYTES, 16 * 1024 * 1024)
    const { handshake, pingAfter, pingTimeout, pingMisses, shutdownRequest, endOfInput, terminate, settle, maxResidentBytes } =
      defaultLimits
    assert.deepEqual([handshake, pingAfter, pingTimeout, pingMisses], [10 * second, 10 * second, 5 * second, 3])
    assert.deepEqual([shutdownRequest, endOfInput, terminate], [5 * second, 2 * second, 2 * second])
    assert.deepEqual([settle, maxResidentBytes], [200, 256 * 1024 * 1024])
  })
})
