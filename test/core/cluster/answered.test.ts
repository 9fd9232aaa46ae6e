import assert from 'node:assert/strict'
import { Asked, KeptAnswers } from '../../../core/cluster/answered.js'

describe('the requests of another gateway', () => {
  it('are new, worked on and answered, whatever their order and the numbers between them', () => {
    const asked = new Asked()
    const numbers = [1, 5, 3, 31, 32, 33, 64, 4_000, 70_000, 69_999]
    for (const number of numbers) {
      assert.equal(asked.state(number), 'new', String(number))
      asked.take(number)
      assert.equal(asked.state(number), 'working')
    }
    asked.answer(69_999)
    asked.answer(70_000)
    assert.deepEqual(
      [69_998, 69_999, 70_000, 70_001].map(number => asked.state(number)),
      ['new', 'answered', 'answered', 'new'],
    )
  })

  it('are taken for answered when they are too long ago, and are not mixed up with those that come round to their place', () => {
    const asked = new Asked()
    const round = 65_536
    asked.take(7)
    asked.answer(7)
    assert.equal(asked.state(7), 'answered')
    asked.take(7 + round)
    assert.deepEqual([asked.state(7), asked.state(6), asked.state(7 + round)], ['answered', 'answered', 'working'])
    asked.answer(7 + round)
    asked.take(10_000_000)
    assert.deepEqual(
      [7 + round, 10_000_000 - round, 10_000_001 - round, 9_999_999, 10_000_000].map(number => asked.state(number)),
      ['answered', 'answered', 'new', 'new', 'working'],
    )
  })

  it('are still worked on until they are answered, however many come meanwhile', () => {
    const asked = new Asked()
    for (const number of [7, 100, 101]) asked.take(number)
    asked.answer(101)
    for (const number of [7 + 65_536, 10_000_000, 10_000_001]) {
      asked.take(number)
      assert.deepEqual(
        [7, 100, 101].map(each => asked.state(each)),
        ['working', 'working', 'answered'],
      )
    }
    asked.answer(7)
    assert.deepEqual([asked.state(7), asked.state(100), asked.state(10_000_000)], ['answered', 'working', 'working'])
  })

  it('have their last answers kept, as many and as long as there is room for', () => {
    const answers = new KeptAnswers()
    for (let id = 1; id <= 5_000; id++) answers.keep(id % 2 === 0 ? 'a' : 'b', String(id), `answer ${String(id)}`)
    assert.equal(answers.find('a', '5000'), 'answer 5000')
    assert.equal(answers.find('b', '5000'), undefined)
    assert.equal(answers.find('b', '3003'), 'answer 3003')
    assert.equal(answers.find('b', '2999'), undefined)
    const large = 'x'.repeat(3 * 1024 * 1024)
    for (const id of ['6001', '6002', '6003']) answers.keep('a', id, large)
    assert.deepEqual(
      ['5000', '6001', '6002', '6003'].map(id => answers.find('a', id)?.length),
      [undefined, undefined, large.length, large.length],
    )
    answers.keep('a', '6004', 'x'.repeat(9 * 1024 * 1024))
    assert.equal(answers.find('a', '6003'), undefined)
    answers.keep('a', '6005', 'after')
    assert.equal(answers.find('a', '6005'), 'after')
  })
})
