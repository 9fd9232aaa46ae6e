import assert from 'node:assert/strict'
import { createWriteStream } from 'node:fs'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import type { ZipFile } from 'yazl'
import { unpackArchive } from '../../core/host/archive.js'
import { startHost } from './support.js'

// The SDK's own dependency: what `service dev build` writes archives with.
const { ZipFile: Zip } = createRequire(new URL('../../sdk/package.json', import.meta.url))('yazl') as { ZipFile: new () => ZipFile }
const PROGRAM = fileURLToPath(new URL('../fixtures/plugins/misbehaving/misbehaving.mjs', import.meta.url))

describe('a plugin archive', () => {
  let directory: string
  let file: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'archive-test-'))
    file = join(directory, 'some.service-plugin')
  })
  afterEach(() => rm(directory, { recursive: true, force: true }))

  const write = async (fill: (zip: ZipFile) => void, target = file): Promise<void> => {
    const zip = new Zip()
    fill(zip)
    zip.end()
    await pipeline(zip.outputStream, createWriteStream(target))
  }

  /** yazl refuses bad names, so a good one of the same length is exchanged for it in the finished archive. */
  const rename = async (from: string, to: string): Promise<void> => {
    assert.equal(from.length, to.length)
    const bytes = await readFile(file)
    await writeFile(file, Buffer.from(bytes.toString('latin1').replaceAll(from, to), 'latin1'))
  }

  const refused = async (why: RegExp): Promise<void> => {
    const target = join(directory, 'unpacked')
    await assert.rejects(unpackArchive(file, target), (error: Error) => error.name === 'StageError' && why.test(error.message))
    assert.deepEqual(await readdir(target), [])
    assert.deepEqual((await readdir(directory)).sort(), ['some.service-plugin', 'unpacked'])
  }

  it('is unpacked and run like a folder', async () => {
    const host = await startHost({ tiers: ['node-permission'] })
    try {
      const manifest = { name: 'packed', version: '1.0.0', pluginInterface: 'DocumentExtractor', supportedExtensions: ['.txt'] }
      await write(
        zip => {
          zip.addBuffer(Buffer.from(JSON.stringify(manifest)), 'manifest.json')
          zip.addFile(PROGRAM, 'packed.mjs')
        },
        join(host.plugins, 'anything-1.0.0.service-plugin'),
      )
      await host.core.scan()
      await host.until('packed', 'ready')
      assert.equal(await host.extract('packed', { name: 'a' }), 'v1 read a')
    } finally {
      await host.stop()
    }
  })

  it('with a name that leads out is refused, and nothing of it stays', async () => {
    for (const bad of ['../../evil.js', '/etc/evil0.js', 'C:/evil-00.js', 'a/../../../e']) {
      await rm(join(directory, 'unpacked'), { recursive: true, force: true })
      await write(zip => {
        zip.addBuffer(Buffer.from('x'), 'n'.repeat(bad.length))
      })
      await rename('n'.repeat(bad.length), bad)
      await refused(/leads out of it|cannot be read/)
    }
  })

  it('with a link, or one name twice, is refused', async () => {
    await write(zip => {
      zip.addBuffer(Buffer.from('/etc/passwd'), 'link', { mode: 0o120777 })
    })
    await refused(/is a link or a device/)
    await rm(join(directory, 'unpacked'), { recursive: true })
    await write(zip => {
      zip.addBuffer(Buffer.from('one'), 'same')
      zip.addBuffer(Buffer.from('two'), 'same')
    })
    await refused(/cannot be read/)
  })

  it('that declares, or holds, too much is refused', async () => {
    const chunk = Buffer.alloc(64 * 1024 * 1024)
    await write(zip => {
      for (let n = 0; n < 5; n++) zip.addBuffer(chunk, `zeros-${String(n)}`)
    })
    assert.ok((await readFile(file)).length < 2 * 1024 * 1024)
    await refused(/more than 5000 files or 256 MiB/)
  })

  it('that is damaged or cut off is refused', async () => {
    await writeFile(file, 'not a zip at all')
    await refused(/cannot be read/)
    await rm(join(directory, 'unpacked'), { recursive: true })
    await write(zip => {
      zip.addBuffer(Buffer.from('x'.repeat(10_000)), 'whole')
    })
    const bytes = await readFile(file)
    await writeFile(file, bytes.subarray(0, bytes.length / 2))
    await refused(/cannot be read/)
    await mkdir(join(directory, 'unpacked'), { recursive: true })
  })
})
