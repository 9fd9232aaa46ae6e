import assert from 'node:assert/strict'
import fc from 'fast-check'
import { joinParts, MAX_FIELD_BYTES } from '../../../plugins/nodes/results.js'
import { toMessages } from '../../../sdk/node/parts.js'

const whole = (result: Record<string, unknown>) => ({ commandId: 'c1', ok: true, result, durationMs: 1 })
const joined = (result: Record<string, unknown>): unknown => joinParts(toMessages(whole(result)).map(({ result: part }) => part ?? {}))

describe('the parts of a result', () => {
  it('are one message without an index for what is small', () => {
    assert.deepEqual(toMessages(whole({ a: 'x' })), [{ ...whole({ a: 'x' }), protocolVersion: '2026-04-01' }])
  })

  it('make the same result again in the gateway, whatever the texts and their lengths are', () => {
    const piece = fc.constantFrom('a', 'ü', '€', '😀', '"', '\n')
    const text = fc.tuple(piece, piece, fc.integer({ min: 0, max: 900_000 })).map(([a, b, length]) => a + b.repeat(length))
    fc.assert(
      fc.property(
        fc.dictionary(fc.stringMatching(/^[a-z]{1,3}$/), fc.oneof(text, fc.integer(), fc.constant(['x', 'y'])), { maxKeys: 4 }),
        data => {
          if (Buffer.byteLength(JSON.stringify(data)) > 12 * 1024 * 1024) return
          assert.deepEqual(joined({ ...data }), { ...data })
        },
      ),
      { numRuns: 40 },
    )
  })

  it('do not overwrite a text whose last piece would fit into the part before it', () => {
    const text = `${'x'.repeat(524_287)}€${'y'.repeat(524_290)}`
    assert.deepEqual(joined({ text, after: 'z' }), { text, after: 'z' })
  })

  it('are numbered from 0, marked at the end, and no field of them is cut by the gateway', () => {
    const messages = toMessages(whole({ image: 'x'.repeat(3_000_000), format: 'png' }))
    assert.deepEqual(
      messages.map(({ partIndex }) => partIndex),
      messages.map((_, index) => index),
    )
    assert.deepEqual(
      messages.map(({ isLast }) => isLast),
      messages.map((_, index) => index === messages.length - 1),
    )
    for (const { result } of messages)
      for (const value of Object.values(result ?? {})) assert.ok(Buffer.byteLength(value as string) <= MAX_FIELD_BYTES)
  })

  it('are refused beyond what the gateway takes', () => {
    assert.throws(() => toMessages(whole({ image: 'x'.repeat(13 * 1024 * 1024) })), { code: 'internal_error', message: /12582912/ })
  })
})
