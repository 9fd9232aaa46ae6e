import assert from 'node:assert/strict'
import { appendFile, mkdtemp, readFile, rm, stat } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CommandMemory } from '../../../sdk/node/memory.js'

const done = (commandId: string, text = '') => ({ commandId, ok: true, result: { text }, durationMs: 1 })

describe('the memory of commands that ran', () => {
  let directory: string
  let memory: CommandMemory
  const reopen = async (): Promise<void> => {
    await memory.close()
    memory = await CommandMemory.open(directory)
  }

  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'node-memory-'))
    memory = await CommandMemory.open(directory)
  })
  afterEach(async () => {
    await memory.close()
    await rm(directory, { recursive: true, force: true })
  })

  it('knows after a crash what was started, what is finished with its result, and what was delivered', async () => {
    await Promise.all(['a', 'b', 'c', 'd'].map(id => memory.started(id, { isDurable: true })))
    await memory.finished(done('b', 'result'))
    await memory.finished(done('c'))
    await memory.delivered('c')
    await memory.forget('d')
    // As after kill -9: the journal is read while the process before never closed it.
    const after = await CommandMemory.open(directory)
    assert.deepEqual(
      ['a', 'b', 'c', 'd'].map(id => after.get(id)?.state),
      ['interrupted', 'finished', 'delivered', undefined],
    )
    assert.deepEqual(after.undelivered(), [done('b', 'result')])
    await after.close()
  })

  it('keeps nothing of commands that may be repeated, but for results that travel in parts', async () => {
    await memory.started('small', { isDurable: false })
    await memory.finished(done('small', 'x'))
    await memory.started('large', { isDurable: false })
    await memory.finished(done('large', 'x'.repeat(2_000_000)))
    await reopen()
    assert.equal(memory.get('small'), undefined)
    assert.equal(memory.get('large')?.state, 'finished')
  })

  it('reads over half a line, and goes on behind it', async () => {
    await memory.started('a', { isDurable: true })
    await memory.close()
    await appendFile(join(directory, 'commands.jsonl'), '{"s":"hal')
    memory = await CommandMemory.open(directory)
    await memory.started('b', { isDurable: true })
    await reopen()
    assert.deepEqual([memory.get('a')?.state, memory.get('b')?.state], ['interrupted', 'interrupted'])
  })

  it('writes its file anew when most of it is over, and is readable by its owner only', async () => {
    for (let i = 0; i < 12; i += 1) {
      await memory.started(`c${i}`, { isDurable: true })
      await memory.finished(done(`c${i}`, 'x'.repeat(1_000_000)))
      await memory.delivered(`c${i}`)
    }
    const { size, mode } = await stat(join(directory, 'commands.jsonl'))
    assert.ok(size < 9 * 1024 * 1024, `${size} bytes`)
    assert.equal(mode & 0o777, 0o600)
    await reopen()
    assert.equal(memory.get('c0')?.state, 'delivered')
    assert.ok((await readFile(join(directory, 'commands.jsonl'), 'utf8')).length < 1000)
  })

  it('forgets the oldest that are over beyond 10,000', async () => {
    await memory.started('running', { isDurable: false })
    for (let i = 0; i < 10_050; i += 1) {
      await memory.started(`c${i}`, { isDurable: false })
      await memory.finished(done(`c${i}`))
      await memory.delivered(`c${i}`)
    }
    assert.equal(memory.get('c0'), undefined)
    assert.equal(memory.get('c10049')?.state, 'delivered')
    assert.equal(memory.get('running')?.state, 'running')
  })
})
