import assert from 'node:assert/strict'
import { createLog } from '../../core/log.js'
import { redact, redactData, registerSecret } from '../../core/redaction.js'

describe('redaction', () => {
  it('replaces a registered secret in text, data and the log, also when it needs escaping in JSON', () => {
    const undo = registerSecret('s3cr3t"with\\quotes')
    const lines: string[] = []
    createLog({ level: 'info', write: line => lines.push(line) }).info(
      { nested: { value: 's3cr3t"with\\quotes' } },
      'key is s3cr3t"with\\quotes',
    )
    assert.equal(redact('a s3cr3t"with\\quotes b'), 'a ******** b')
    assert.deepEqual(redactData({ deep: ['s3cr3t"with\\quotes!'] }), { deep: ['********!'] })
    assert.ok(!lines.join('').includes('s3cr3t'))
    assert.doesNotThrow(() => JSON.parse(lines.join('')) as unknown)
    undo()
    assert.equal(redact('a s3cr3t"with\\quotes b'), 'a s3cr3t"with\\quotes b')
  })

  it('leaves the shape of data and of the log alone, whatever a secret looks like', () => {
    const undo = ['"error":', '","msg":"', '{"deep":', '[null,', '"time":"'].map(registerSecret)
    const lines: string[] = []
    createLog({ level: 'info', write: line => lines.push(line) }).info({ deep: [null, '"error":'] }, 'said "error": and {"deep":')
    const data = { error: { deep: [null, 1, true, '"error":', '","msg":"'] } }
    assert.deepEqual(redactData(data), { error: { deep: [null, 1, true, '********', '********'] } })
    const line = JSON.parse(lines.join('')) as Record<string, unknown>
    assert.equal(line.msg, 'said ******** and ********')
    assert.deepEqual(line.deep, [null, '********'])
    for (const step of undo) step()
  })

  it('goes on while anyone still holds the secret', () => {
    const first = registerSecret('held-by-two')
    const second = registerSecret('held-by-two')
    first()
    first()
    assert.equal(redact('held-by-two'), '********')
    second()
    assert.equal(redact('held-by-two'), 'held-by-two')
  })

  it('leaves words alone that are too short to be secrets', () => {
    registerSecret('abc')
    assert.equal(redact('abc'), 'abc')
  })
})
