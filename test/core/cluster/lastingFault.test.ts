import assert from 'node:assert/strict'
import { LastingFault } from '../../../core/cluster/lastingFault.js'
import { createLog } from '../../../core/log.js'
import { waitFor } from '../../support/waitFor.js'

describe('a fault that lasts', () => {
  it('is told when it begins, seldom while it lasts, and when it is over', async () => {
    const lines: { level: string; msg: string; unsaid?: number; try?: number }[] = []
    const log = createLog({ level: 'info', write: line => lines.push(JSON.parse(line) as (typeof lines)[number]) })
    const fault = new LastingFault(log, { begins: 'it begins', ends: 'it ends', againMs: 100 })
    fault.passed()
    assert.equal(lines.length, 0)
    let tries = 0
    const startedAt = performance.now()
    await waitFor('it to be told again', () => {
      fault.met({ try: (tries += 1) })
      return lines.length > 1
    })
    assert.ok(performance.now() - startedAt >= 100)
    assert.deepEqual(
      lines.map(({ level, msg, unsaid, try: at }) => [level, msg, unsaid, at]),
      [
        ['error', 'it begins', undefined, 1],
        ['error', 'it begins', tries - 2, tries],
      ],
    )
    fault.passed()
    fault.passed()
    fault.met({})
    assert.deepEqual(
      lines.slice(2).map(({ msg }) => msg),
      ['it ends', 'it begins'],
    )
  })
})
