import assert from 'node:assert/strict'
import { z } from 'zod'
import { EventBus } from '../../core/events.js'
import { createLog } from '../../core/log.js'
import { event } from '../../core/plugin.js'

const happened = event('test.happened', z.object({ n: z.number() }))

describe('events', () => {
  const lines: string[] = []
  const bus = (): EventBus => new EventBus(createLog({ level: 'info', write: line => lines.push(line) }))

  it('reach every handler after the emitter has gone on', async () => {
    const events = bus()
    const seen: string[] = []
    events.on(happened, ({ n }) => void seen.push(`first ${n}`))
    events.on(happened, ({ n }) => void seen.push(`second ${n}`))
    events.emit(happened, { n: 1 })
    assert.deepEqual(seen, [])
    await events.settled()
    assert.deepEqual(seen, ['first 1', 'second 1'])
  })

  it('reach the others when one handler fails, and the failure is logged', async () => {
    const events = bus()
    const seen: number[] = []
    events.on(happened, () => {
      throw new Error('broken handler')
    })
    events.on(happened, ({ n }) => void seen.push(n))
    events.emit(happened, { n: 2 })
    await events.settled()
    assert.deepEqual(seen, [2])
    assert.ok(lines.some(line => line.includes('broken handler') && line.includes('test.happened')))
  })

  it('do not reach a handler that was taken away', async () => {
    const events = bus()
    const undo = events.on(happened, () => assert.fail('called'))
    undo()
    events.emit(happened, { n: 3 })
    await events.settled()
  })

  it('refuse a payload that breaks the schema', () => {
    assert.throws(() => {
      bus().emit(happened, { n: 'three' } as never)
    })
  })
})
