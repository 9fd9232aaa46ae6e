import assert from 'node:assert/strict'
import { measured, surer } from '../../../core/cluster/clock.js'

describe('the clock that gateways share', () => {
  /** An answer that was `outMs` on its way there and `backMs` on its way back, of a clock that is 5,000 ms ahead. */
  const answer = (askedAt: number, outMs: number, backMs: number, aheadMs = 5_000) =>
    measured(askedAt, askedAt + outMs + aheadMs, askedAt + outMs + backMs)

  it('is wrong by half of the time that the answer took at most', () => {
    const { aheadMs, errorMs, atMs } = answer(100, 10, 2)
    assert.deepEqual([aheadMs, errorMs, atMs], [5_004, 6, 112])
  })

  it('is not spoiled by an answer that took its time', () => {
    const good = answer(0, 0.5, 0.5)
    assert.equal(surer(good, answer(10_000, 1_500, 1)), good)
    const fresh = answer(10_000, 1, 2)
    assert.equal(surer(good, fresh), fresh)
    assert.equal(surer(undefined, fresh), fresh)
  })

  it('trusts an old answer less and less', () => {
    const good = answer(0, 0.5, 0.5)
    const late = answer(600_000, 250, 1)
    assert.equal(surer(good, late), late)
  })

  it('follows a clock that was set, at once', () => {
    const good = answer(0, 0.5, 0.5)
    const set = answer(10_000, 40, 1, 7_000)
    assert.equal(surer(good, set), set)
  })
})
