import assert from 'node:assert/strict'
import { Turnstile } from '../../../../plugins/nodes/hub/turnstile.js'

const nextTurn = () => new Promise(resolve => setImmediate(resolve))

describe('the turnstile of connections', () => {
  it('lets all in, in order, with turns for others between them', async () => {
    const turnstile = new Turnstile()
    const entered: number[] = []
    for (let n = 0; n < 100; n++)
      assert.equal(
        turnstile.queue(() => entered.push(n)),
        true,
      )
    const between: number[] = []
    while (entered.length < 100) {
      await nextTurn()
      between.push(entered.length)
    }
    assert.ok(between.length >= 5, `others had ${between.length} turns`)
    assert.deepEqual(
      entered,
      Array.from({ length: 100 }, (_, n) => n),
    )
  })

  it('sends away whom it cannot let wait, and is open again after', async () => {
    const turnstile = new Turnstile()
    let entered = 0
    const enter = () => (entered += 1)
    let waiting = 0
    while (turnstile.queue(enter)) waiting += 1
    assert.equal(waiting, 20_000)
    while (entered < waiting) await nextTurn()
    assert.equal(turnstile.queue(enter), true)
  })
})
