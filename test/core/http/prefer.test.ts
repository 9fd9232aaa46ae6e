import assert from 'node:assert/strict'
import { preferredWait } from '../../../core/http/prefer.js'

describe('the wish of a caller to wait', () => {
  it('is read in every form of the header', () => {
    for (const header of [
      'wait=5',
      'Wait = 5',
      'respond-async, wait=5',
      'wait="5"',
      'wait=5; foo=bar',
      'wait=5, return=minimal',
      'wait=5, wait=9',
    ])
      assert.equal(preferredWait(header, 60), 5, header)
    assert.equal(preferredWait(['respond-async', 'wait=5'], 60), 5)
  })

  it('is granted up to the limit', () => {
    assert.equal(preferredWait('wait=61', 60), 60)
    assert.equal(preferredWait('wait=999999999', 60), 60)
  })

  it('is none where it says no time', () => {
    for (const header of [
      undefined,
      '',
      'wait',
      'wait=',
      'wait=-5',
      'wait=5s',
      'wait=1.5',
      'await=5',
      'waiting=5',
      `wait=${'9'.repeat(400)}`,
    ])
      assert.equal(preferredWait(header, 60), 0, header)
  })
})
