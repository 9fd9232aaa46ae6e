import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, mkdtemp, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createExchange } from '../../core/host/exchange.js'

describe('an exchange of files with a plugin', () => {
  let home: string
  let root: string
  let outside: string
  beforeEach(async () => {
    home = await mkdtemp(join(tmpdir(), 'exchange-test-'))
    root = join(home, 'exchange')
    outside = join(home, 'outside')
    await mkdir(root)
    await mkdir(outside)
    await writeFile(join(outside, 'secret'), 'the key')
  })
  afterEach(() => rm(home, { recursive: true, force: true }))

  const make = () =>
    createExchange({ root, rootInPlugin: '/exchange', draftRoot: join(home, 'drafts') }, async draft => {
      await mkdir(join(draft, 'output'))
      await writeFile(join(draft, 'document.ics'), 'content')
    })

  it('appears in one step, whole, and is gone when removed', async () => {
    const exchange = await make()
    const [name = ''] = await readdir(root)
    assert.equal(exchange.pathInPlugin, `/exchange/${name}`)
    assert.deepEqual((await readdir(join(root, name))).sort(), ['document.ics', 'output'])
    await writeFile(join(root, name, 'output', 'text'), 'read')
    const handle = await exchange.open('output/text')
    assert.equal(await handle.readFile('utf8'), 'read')
    await handle.close()
    await exchange.remove()
    assert.deepEqual(await readdir(root), [])
    assert.deepEqual(await readdir(join(home, 'drafts')), [])
  })

  it('does not let the plugin lead the gateway out, by a link in the place of the file, its directory or the whole', async () => {
    const exchange = await make()
    const [name = ''] = await readdir(root)
    const place = join(root, name)
    await symlink(join(outside, 'secret'), join(place, 'output', 'text'))
    await assert.rejects(exchange.open('output/text'), /not in its exchange directory/)
    await rm(join(place, 'output'), { recursive: true })
    await symlink(outside, join(place, 'output'))
    await assert.rejects(exchange.open('output/secret'), /not in its exchange directory/)
    await rm(place, { recursive: true })
    await symlink(outside, place)
    await assert.rejects(exchange.open('secret'), /not in its exchange directory/)
    await exchange.remove()
    assert.deepEqual(await readdir(outside), ['secret'])
  })

  it('is gone when removed whatever the plugin left in it, but for what its links lead to', async () => {
    const shapes: Record<string, (place: string) => Promise<unknown>> = {
      links: place => Promise.all([symlink(outside, join(place, 'a')), symlink(join(outside, 'secret'), join(place, 'output', 'b'))]),
      'many files': place => Promise.all(Array.from({ length: 300 }, (_, n) => writeFile(join(place, 'output', `f${String(n)}`), ''))),
      'deep directories': place => mkdir(join(place, ...Array.from({ length: 40 }, () => 'd')), { recursive: true }),
    }
    for (const [what, fill] of Object.entries(shapes)) {
      const exchange = await make()
      const [name = ''] = await readdir(root)
      await fill(join(root, name))
      await exchange.remove()
      assert.deepEqual([await readdir(root), await readdir(outside)], [[], ['secret']], what)
    }
  })

  it('is removed without touching what is outside, while the plugin swaps its directories for links', async () => {
    for (let index = 0; index < 200; index++) await writeFile(join(outside, `kept${index}`), 'x')
    const program = `
      const { existsSync, mkdirSync, renameSync, rmSync, symlinkSync, writeFileSync } = require('node:fs')
      const [place, aside, outside] = process.argv.slice(1)
      const tolerant = act => { try { act() } catch {} }
      process.stdout.write('at work')
      for (;;) {
        tolerant(() => mkdirSync(place, { recursive: true }))
        tolerant(() => { for (let i = 0; i < 20; i++) writeFileSync(place + '/kept' + i, '') })
        tolerant(() => renameSync(place, aside))
        tolerant(() => symlinkSync(outside, place))
        tolerant(() => rmSync(place))
        tolerant(() => renameSync(aside, place))
      }`
    for (let round = 0; round < 5; round++) {
      const exchange = await make()
      const place = join(root, (await readdir(root))[0]!, 'output')
      const child = spawn(process.execPath, ['-e', program, place, `${place}-aside`, outside], { stdio: ['ignore', 'pipe', 'inherit'] })
      await once(child.stdout, 'data')
      // It fails where there is always something new; what counts is what it leaves alone.
      for (let time = 0; time < 40; time++) await exchange.remove().catch((error: unknown) => error)
      child.kill('SIGKILL')
      await once(child, 'exit')
      assert.equal((await readdir(outside)).length, 201)
      await exchange.remove()
      assert.deepEqual(await readdir(root), [])
    }
  })

  it('leaves nothing behind when it cannot be filled', async () => {
    const failing = createExchange({ root, rootInPlugin: '/exchange', draftRoot: join(home, 'drafts') }, () =>
      Promise.reject(new Error('disk full')),
    )
    await assert.rejects(failing, /disk full/)
    assert.deepEqual(await readdir(join(home, 'drafts')), [])
  })
})
