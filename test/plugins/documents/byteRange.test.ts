import assert from 'node:assert/strict'
import { readByteRange } from '../../../plugins/documents/byteRange.js'

describe('a Range header', () => {
  const cases: [string | undefined, number, ReturnType<typeof readByteRange>][] = [
    [undefined, 10, undefined],
    ['bytes=0-3', 10, { start: 0, end: 3 }],
    ['bytes=3-', 10, { start: 3, end: 9 }],
    ['bytes=-3', 10, { start: 7, end: 9 }],
    ['bytes=-30', 10, { start: 0, end: 9 }],
    ['bytes=8-30', 10, { start: 8, end: 9 }],
    ['Bytes= 9-9 ', 10, { start: 9, end: 9 }],
    ['bytes=10-', 10, 'unsatisfiable'],
    ['bytes=-0', 10, 'unsatisfiable'],
    ['bytes=0-', 0, 'unsatisfiable'],
    ['bytes=-5', 0, 'unsatisfiable'],
    ['bytes=99999999999999999999-', 10, 'unsatisfiable'],
    ['bytes=5-3', 10, undefined],
    ['bytes=0-1,3-4', 10, undefined],
    ['bytes=-', 10, undefined],
    ['bytes=a-b', 10, undefined],
    ['lines=0-3', 10, undefined],
  ]
  for (const [header, size, expected] of cases)
    it(`${String(header)} of ${size} bytes is ${expected === undefined ? 'the whole file' : JSON.stringify(expected)}`, () => {
      assert.deepEqual(readByteRange(header, size), expected)
    })
})
