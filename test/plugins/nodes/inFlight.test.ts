import assert from 'node:assert/strict'
import { InFlight } from '../../../plugins/nodes/inFlight.js'

describe('what a connection has under way', () => {
  it('is there until it is taken out, each call with what ends it, in whatever order they end', () => {
    const inFlight = new InFlight()
    const settles = new Map(['a', 'c', 'd'].map(id => [id, () => assert.fail('nothing is ended here')]))
    for (const id of ['a', 'b', 'c', 'd', 'e']) inFlight.add(id, settles.get(id))
    inFlight.add('a')
    for (const gone of ['b', 'e', 'a', 'd', 'c']) {
      assert.equal(inFlight.delete(gone), true)
      assert.equal(inFlight.delete(gone), false)
      assert.equal(inFlight.has(gone), false)
      assert.equal(inFlight.settleOf(gone), undefined)
      for (const id of inFlight.ids) assert.equal(inFlight.settleOf(id), settles.get(id), id)
    }
    assert.equal(inFlight.size, 0)
    assert.equal(inFlight.settleOf('unknown'), undefined)
  })
})
