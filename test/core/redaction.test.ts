import assert from 'node:assert/strict'
import fc from 'fast-check'
import { createLog } from '../../core/log.js'
import { redact, redactData, redactHead, registerSecret } from '../../core/redaction.js'

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

  it('finds what a plain search finds, of many secrets that begin alike or contain each other', () => {
    const piece = fc.constantFrom('aaaaaa', 'aaaaaab', 'secret', 'secret-', 'secret-1', '"quoted"', 'a\\b\nc', 'b', ' ', 'é\ud83d\udd11key')
    const text = fc.array(piece, { maxLength: 8 }).map(parts => parts.join(''))
    fc.assert(
      fc.property(fc.uniqueArray(text, { maxLength: 6 }), text, (values, said) => {
        const undo = values.map(registerSecret)
        const long = values.filter(value => value.length >= 6).sort((a, b) => b.length - a.length)
        const escape = (value: string): string => value.replace(/[.*+?^${}()|[\]\\]/g, String.raw`\$&`)
        const forms = long.flatMap(value => [value, JSON.stringify(value).slice(1, -1)]).sort((a, b) => b.length - a.length)
        const expected = forms.length === 0 ? said : said.replace(new RegExp(forms.map(escape).join('|'), 'g'), '********')
        assert.equal(redact(said), expected)
        for (const value of long) assert.ok(!redactData([said])[0]?.includes(value))
        for (const step of undo) step()
        assert.equal(redact(said), said)
      }),
    )
  })

  it('of the head of a text leaves no half of a secret that the cut goes through', () => {
    const undo = registerSecret('hunter2-hunter2')
    const text = 'the password is hunter2-hunter2 and more'
    for (let length = 0; length <= text.length + 2; length += 1) {
      const head = redactHead(text, length)
      assert.ok(!head.includes('hu'), head)
      assert.equal(head.slice(0, 16), text.slice(0, Math.min(16, length)))
    }
    assert.equal(redactHead(text, 17), 'the password is ********')
    assert.equal(redactHead(text, 35), 'the password is ******** and')
    undo()
    assert.equal(redactHead(text, 3), 'the')
  })

  it('forgets the oldest of too many, and finds all others', () => {
    const undo = Array.from({ length: 10_001 }, (_, index) => registerSecret(`number ${String(index)} of many`))
    assert.equal(redact('number 0 of many'), 'number 0 of many')
    assert.equal(redact('number 1 of many, number 10000 of many'), '********, ********')
    for (const step of undo) step()
    assert.equal(redact('number 1 of many'), 'number 1 of many')
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
