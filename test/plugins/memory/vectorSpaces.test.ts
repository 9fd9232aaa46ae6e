import assert from 'node:assert/strict'
import { capacityOf, VectorSpaces, type Hit } from '../../../plugins/memory/vectorSpaces.js'

const floats = (...numbers: number[]): string => {
  const bytes = Buffer.alloc(numbers.length * 4)
  for (const [index, value] of numbers.entries()) bytes.writeFloatLE(value, index * 4)
  return bytes.toString('base64')
}
const at = (second: number): string => new Date(second * 1000).toISOString()

describe('vectors in memory', () => {
  let spaces: VectorSpaces

  beforeEach(() => {
    spaces = new VectorSpaces()
  })

  const open = (space: string, dimension: number): unknown => spaces.run({ kind: 'open', space, dimension })
  const add = (space: string, id: string, vector: string, createdAt = at(0)): unknown =>
    spaces.run({ kind: 'add', space, rows: [{ id, createdAt, vector }] })
  const search = (space: string, vector: string, minSimilarity = -1, limit = 10): Hit[] | null =>
    spaces.run({ kind: 'search', space, vector, minSimilarity, limit }) as Hit[] | null
  const ids = (hits: Hit[] | null): string[] => hits?.map(({ id }) => id) ?? []

  it('are found by their direction, whatever their length, best first, from a similarity on', () => {
    open('a', 2)
    add('a', 'east', floats(1e-30, 0))
    add('a', 'north', floats(0, 1e30))
    add('a', 'north-east', floats(3, 3))
    add('a', 'west', floats(-2, 0))
    const hits = search('a', floats(7, 0))
    assert.deepEqual(ids(hits), ['east', 'north-east', 'north', 'west'])
    assert.deepEqual(
      hits!.map(({ score }) => Math.round(score * 1000) / 1000),
      [1, 0.707, 0, -1],
    )
    assert.deepEqual(ids(search('a', floats(7, 0), 0.5)), ['east', 'north-east'])
    assert.deepEqual(ids(search('a', floats(7, 0), -1, 1)), ['east'])
  })

  it('belong to one space, and are replaced under their id', () => {
    open('a', 2)
    open('b', 2)
    add('a', 'x', floats(1, 0))
    assert.deepEqual(ids(search('b', floats(1, 0))), [])
    add('a', 'x', floats(0, 1))
    assert.deepEqual(search('a', floats(0, 1)), [{ id: 'x', score: 1 }])
    assert.deepEqual(spaces.run({ kind: 'unknown', space: 'a', ids: ['x', 'y'] }), ['y'])
    open('a', 2)
    assert.deepEqual(search('a', floats(0, 1)), [])
  })

  it('that are no vectors are refused: no numbers, all zeros, another dimension', () => {
    open('a', 2)
    for (const [vector, message] of [
      [floats(NaN, 1), /holds what is no number/],
      [floats(Infinity, 1), /holds what is no number/],
      [floats(0, 0), /all zeros/],
      [floats(1, 2, 3), /3 dimensions instead of 2/],
    ] as const) {
      assert.throws(() => add('a', 'x', vector), message)
      assert.throws(() => search('a', vector), message)
    }
    assert.deepEqual(search('a', floats(0, 1)), [])
  })

  it('are at most 5,000 an owner, and fewer of many dimensions; the oldest make room', () => {
    assert.deepEqual([capacityOf(3), capacityOf(1_536), capacityOf(4_096)], [5_000, 5_000, 2_048])
    open('a', 2)
    for (let second = 1; second <= 5_000; second += 1) add('a', `e${second}`, floats(1, second), at(second))
    add('a', 'new', floats(1, 0), at(6_000))
    add('a', 'ancient', floats(1, 0), at(0))
    assert.deepEqual(spaces.run({ kind: 'unknown', space: 'a', ids: ['e1', 'e2', 'e5000', 'new', 'ancient'] }), ['e1', 'ancient'])
    assert.equal(search('a', floats(1, 1), -1, 10_000)!.length, 5_000)
    assert.deepEqual(ids(search('a', floats(1, 0), -1, 1)), ['new'])
  })

  it('of owners beyond 64 MiB are let go of, those that were not searched for longest first', () => {
    const large = floats(...new Array<number>(4_096).fill(1))
    for (const space of ['a', 'b', 'c']) {
      open(space, 4_096)
      const rows = Array.from({ length: 2_000 }, (_, index) => ({ id: String(index), createdAt: at(index), vector: large }))
      spaces.run({ kind: 'add', space, rows })
    }
    assert.equal(search('a', large), null)
    assert.equal(add('a', 'x', large), null)
    assert.equal(search('c', large)?.length, 10)
  })
})
