import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, rm, statfs, truncate, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { Library } from './library.js'

const run = promisify(execFile)
const MIB = 1024 * 1024

const mount = async (directory: string, mebibytes: number): Promise<boolean> => {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return false
  return run('mount', ['-t', 'tmpfs', '-o', `size=${mebibytes}m`, 'tmpfs', directory]).then(
    () => true,
    () => false,
  )
}

describe('an upload', () => {
  let dataDir: string
  let gateway: TestGateway | undefined
  let mounted: string | undefined

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-full-'))
  })
  afterEach(async () => {
    await gateway?.stop({ keep: true })
    gateway = undefined
    if (mounted !== undefined) await run('umount', ['-l', mounted])
    mounted = undefined
    await rm(dataDir, { recursive: true, force: true })
  })

  const start = async (): Promise<{ library: Library; token: string }> => {
    gateway = await startGateway({ dataDir })
    const token = await login(gateway)
    return { library: new Library(gateway, token), token }
  }

  /** Leaves this much room on the disk of the directory. */
  const fill = async (directory: string, leave: number): Promise<string> => {
    const { bavail, bsize } = await statfs(directory)
    const file = join(directory, 'filler')
    await writeFile(file, Buffer.alloc(bavail * bsize - leave))
    return file
  }

  const isRefused = async (library: Library, token: string): Promise<void> => {
    const { status, body } = await library.upload('big.txt', Buffer.alloc(4 * MIB, 0x61))
    assert.deepEqual([status, body?.error?.code], [503, 'service_unavailable'])
    assert.match(body.error.message, /disk is full: nothing was stored/)
    assert.deepEqual((await gateway!.call('GET', '/documents', { token })).body.items, [])
    assert.deepEqual(
      (await readdir(join(dataDir, 'documents'))).filter(name => name.startsWith('doc_')),
      [],
    )
    await waitFor('the received file to go', async () => (await readdir(join(dataDir, 'tmp', 'uploads'))).length === 0)
  }

  it('to a full disk is refused, stores nothing, and works when there is room again', async function () {
    if (!(await mount(dataDir, 48))) return this.skip()
    mounted = dataDir
    const { library, token } = await start()
    const filler = await fill(dataDir, 2 * MIB)
    await isRefused(library, token)
    await truncate(filler, 0)
    assert.equal((await library.read('big.txt', Buffer.alloc(4 * MIB, 0x61))).status, 'ready')
  })

  it('that fits the disk of the uploads and not the one of the documents is refused, and stores nothing', async function () {
    const documents = join(dataDir, 'documents')
    await mkdir(documents)
    if (!(await mount(documents, 8))) return this.skip()
    mounted = documents
    const { library, token } = await start()
    const filler = await fill(documents, 2 * MIB)
    await isRefused(library, token)
    await truncate(filler, 0)
    assert.equal((await library.read('small.txt', 'fits')).text, 'fits')
  })

  it('that a crash cut off leaves no file for longer than until the first start an hour later', async () => {
    const { library } = await start()
    const { id } = await library.read('kept.txt', 'kept')
    await gateway?.stop({ keep: true })
    const hourAgo = Date.now() / 1000 - 3_601
    for (const name of ['doc_old', 'doc_new']) {
      await mkdir(join(dataDir, 'documents', name))
      await writeFile(join(dataDir, 'documents', name, 'v1'), 'orphan')
    }
    await mkdir(join(dataDir, 'documents', 'of someone else'))
    for (const name of ['doc_old', 'of someone else', id]) await utimes(join(dataDir, 'documents', name), hourAgo, hourAgo)
    await start()
    await waitFor('the old file to go', async () => !(await readdir(join(dataDir, 'documents'))).includes('doc_old'))
    assert.deepEqual((await readdir(join(dataDir, 'documents'))).sort(), ['doc_new', 'of someone else', id].sort())
  })
})
