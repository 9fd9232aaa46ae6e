import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { copyFile, mkdir, mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { digestOf } from '../../core/host/archive.js'
import { Installs } from '../../core/host/installs.js'
import { waitFor } from '../support/waitFor.js'
import { writePluginArchive } from './archives.js'

describe('installed archives', () => {
  let root: string
  let installs: Installs
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'installs-test-'))
    installs = new Installs(join(root, 'installs'))
  })
  afterEach(() => rm(root, { recursive: true, force: true }))

  const archive = async (version: string): Promise<{ file: string; digest: string }> => {
    const file = join(root, `${version}.service-plugin`)
    await writePluginArchive(file, { name: 'some', version })
    return { file, digest: await digestOf(file) }
  }
  const install = async (version: string): Promise<string> => {
    const { file, digest } = await archive(version)
    await installs.install('some', file, { version, digest, installedAt: 'now' })
    return digest
  }
  const folder = () => readdir(join(root, 'installs/some'))

  it('keep the version in force and the one before, and nothing else', async () => {
    const digests = [await install('1.0.0'), await install('2.0.0'), await install('3.0.0')]
    assert.deepEqual((await folder()).sort(), [`${digests[1]!}.service-plugin`, `${digests[2]!}.service-plugin`, 'installed.json'].sort())
    const known = (await installs.get('SOME'))!
    assert.deepEqual([known.current.version, known.previous?.version], ['3.0.0', '2.0.0'])
    const back = await installs.rollBack({ ...known, previous: known.previous! })
    assert.deepEqual([back.current.version, back.previous?.version], ['2.0.0', '3.0.0'])
    assert.equal((await stat(installs.archiveOf('some', back.current))).mode & 0o777, 0o600)
  })

  it('are forgotten at once, and swept up when that was cut short', async () => {
    await install('1.0.0')
    await installs.remove('some')
    assert.deepEqual([await installs.list(), await readdir(join(root, 'installs'))], [[], []])
    await mkdir(join(root, 'installs/.removed-x/y'), { recursive: true })
    await mkdir(join(root, 'installs/half'))
    await writeFile(join(root, 'installs/half/0123.service-plugin'), 'never counted')
    assert.deepEqual(await installs.list(), [])
    await installs.cleanUp()
    assert.deepEqual(await readdir(join(root, 'installs')), [])
  })

  it('whose record is damaged are shown, and can be installed over and removed', async () => {
    await install('1.0.0')
    for (const text of [
      '{',
      '{}',
      '{"id": "some", "current": {"version": "1.0.0", "digest": "../../evil", "installedAt": ""}, "previous": null}',
    ]) {
      await writeFile(join(root, 'installs/some/installed.json'), text)
      const [entry] = await installs.list()
      assert.ok(entry && 'damaged' in entry)
      assert.deepEqual([await installs.get('some'), await installs.has('some')], [undefined, true])
    }
    await install('1.0.0')
    assert.equal((await installs.get('some'))?.current.version, '1.0.0')
  })

  it('are the old or the new version, whole, whenever the installer is killed', async () => {
    const archives = [await archive('1.0.0'), await archive('2.0.0')]
    const program = fileURLToPath(new URL('installProgram.ts', import.meta.url))
    const run = async (killAfter: number): Promise<number> => {
      const child = spawn(process.execPath, ['--import', 'tsx', program, root, ...archives.map(({ file }) => file)])
      let said = ''
      let complaints = ''
      child.stdout.on('data', (chunk: Buffer) => (said += chunk.toString()))
      child.stderr.on('data', (chunk: Buffer) => (complaints += chunk.toString()))
      await waitFor('it to install', () => said.includes('\n') || child.exitCode !== null)
      // Somewhere in the middle of one of the next installations.
      await new Promise(resolve => setTimeout(resolve, killAfter))
      child.kill('SIGKILL')
      await once(child, 'close')
      assert.equal(complaints, '')
      return Number(said.trimEnd().split('\n').at(-1))
    }
    for (const killAfter of [0, 3, 7, 12, 18, 25]) {
      const acknowledged = await run(killAfter)
      const [entry, ...others] = await installs.list()
      assert.ok(entry && 'installation' in entry)
      assert.deepEqual(others, [])
      const { current, previous } = entry.installation
      assert.ok([acknowledged, acknowledged + 1].includes(parseInt(current.version)), `${current.version} after ${String(acknowledged)}`)
      assert.equal(await digestOf(entry.file), current.digest)
      if (previous) assert.equal(await digestOf(installs.archiveOf('some', previous)), previous.digest)
      await installs.cleanUp()
      assert.equal((await folder()).length, previous ? 3 : 2)
    }
  })

  it('are moved in: the upload is not copied', async () => {
    const { file, digest } = await archive('1.0.0')
    const upload = join(root, 'upload')
    await copyFile(file, upload)
    const { ino } = await stat(upload)
    const { current } = await installs.install('some', upload, { version: '1.0.0', digest, installedAt: '' })
    assert.equal((await stat(installs.archiveOf('some', current))).ino, ino)
    await assert.rejects(stat(upload), { code: 'ENOENT' })
  })
})
