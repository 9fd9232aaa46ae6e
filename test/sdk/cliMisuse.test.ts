import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdir, mkdtemp, readdir, realpath, rm, symlink, truncate, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const service = fileURLToPath(new URL('../../sdk/bin/service.js', import.meta.url))

describe('service dev, given what it cannot use,', () => {
  let folder: string

  const run = (args: readonly string[]): Promise<{ code: number | null; output: string }> =>
    new Promise(resolve => {
      const child = execFile(process.execPath, [service, 'dev', ...args], { cwd: folder, timeout: 30_000 }, (_error, stdout, stderr) =>
        resolve({ code: child.exitCode, output: stdout + stderr }),
      )
    })
  /** A folder that could be built, but for what is said. */
  const plugin = async (name: string, more: object = {}): Promise<string> => {
    const directory = join(folder, name)
    await mkdir(directory)
    const manifest = {
      ...{ name, version: '1.0.0', description: 'd', entrypoint: 'index.js' },
      ...{ pluginInterface: 'DocumentExtractor', supportedExtensions: ['.txt'], ...more },
    }
    await writeFile(join(directory, 'manifest.json'), JSON.stringify(manifest))
    await writeFile(join(directory, 'index.js'), 'console.log(1)\n')
    return directory
  }
  const mkfifo = (path: string): Promise<unknown> => new Promise(resolve => execFile('mkfifo', [path], resolve))

  before(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'service-misuse-')))
    await writeFile(join(folder, 'file'), '')
  })
  after(() => rm(folder, { recursive: true, force: true }))

  const cases: [what: string, prepare: () => Promise<string[]>, expected: RegExp][] = [
    [
      'a folder that is not there',
      () => Promise.resolve(['validate', 'nowhere']),
      /^There is no .*nowhere.manifest\.json\. .*service dev new/,
    ],
    ['a file in the place of a folder', () => Promise.resolve(['build', 'file']), /^There is no .*file.manifest\.json/],
    [
      'a manifest that is a folder',
      async () => {
        await mkdir(join(folder, 'of-folders', 'manifest.json'), { recursive: true })
        return ['validate', 'of-folders']
      },
      /manifest\.json is no file/,
    ],
    [
      'a manifest that is a link to itself',
      async () => {
        await mkdir(join(folder, 'looping'))
        await symlink('manifest.json', join(folder, 'looping', 'manifest.json'))
        return ['validate', 'looping']
      },
      /a link that leads back to itself/,
    ],
    [
      'a manifest that nobody writes to the end of',
      async () => {
        await mkdir(join(folder, 'piped'))
        await mkfifo(join(folder, 'piped', 'manifest.json'))
        return ['validate', 'piped']
      },
      /manifest\.json is no file/,
    ],
    [
      'a manifest that is too large',
      async () => {
        await truncate(join(await plugin('huge'), 'manifest.json'), 3_000_000_000)
        return ['build', 'huge']
      },
      /has 3000000000 bytes: a gateway takes a manifest of at most 262144/,
    ],
    [
      'a manifest that is no UTF-8',
      async () => {
        await writeFile(join(await plugin('latin'), 'manifest.json'), Buffer.from('{"name": "caf\xe9"}', 'latin1'))
        return ['validate', 'latin']
      },
      /is no UTF-8 text: save it as UTF-8/,
    ],
    [
      'an entry that is a folder',
      async () => {
        const directory = await plugin('hollow')
        await rm(join(directory, 'index.js'))
        await mkdir(join(directory, 'index.js'))
        return ['build', 'hollow']
      },
      /manifest\.json:1:\d+: error: entrypoint: "index\.js" is no file/,
    ],
    [
      'a link to a file of someone else',
      async () => {
        await symlink('/etc/passwd', join(await plugin('thief', { files: ['stolen'] }), 'stolen'))
        return ['build', 'thief']
      },
      /stolen is a link to \/etc\/passwd, not inside of the plugin's folder/,
    ],
    [
      'a link to its own folder',
      async () => {
        await symlink('.', join(await plugin('round', { files: ['again'] }), 'again'))
        return ['build', 'round']
      },
      /again is a link to .*round, not inside/,
    ],
    [
      'a pipe among its files',
      async () => {
        await mkfifo(join(await plugin('plumber', { files: ['pipe'] }), 'pipe'))
        return ['build', 'plumber']
      },
      /pipe is neither a file nor a folder/,
    ],
    [
      'more than a gateway takes',
      async () => {
        const large = join(await plugin('heavy', { files: ['large'] }), 'large')
        await writeFile(large, '')
        await truncate(large, 3_000_000_000)
        return ['build', 'heavy']
      },
      /a gateway takes 5000 files and 256 MiB\. large is one too many/,
    ],
    [
      'a folder in the place of the archive',
      async () => {
        await mkdir(join(await plugin('taken'), 'out'))
        return ['build', 'taken', '--out', 'taken/out']
      },
      /^The archive cannot be written to .*out: EISDIR.* Name another file with --out$/m,
    ],
    [
      'a file in the place of publish/',
      async () => {
        await writeFile(join(await plugin('blocked'), 'publish'), '')
        return ['build', 'blocked']
      },
      /^The bundle cannot be written to .*blocked.cjs: EEXIST/,
    ],
    [
      'a file in the place of a new folder',
      () => Promise.resolve(['new', 'fine', '--kind', 'model', '--dir', 'file']),
      /file cannot be used: ENOTDIR/,
    ],
    [
      'a key below a file',
      () => Promise.resolve(['keygen', '--out', 'file/key']),
      /file.key cannot be written: .*Name another file with --out/,
    ],
    ['a key that is there', () => Promise.resolve(['keygen', '--out', 'file']), /file is there already: .*never written over/],
    ['an archive that is none', () => Promise.resolve(['test', 'file']), /file cannot be read: /],
  ]
  for (const [what, prepare, expected] of cases)
    it(`says so in a line, and ends with 1: ${what}`, async function () {
      if (process.platform === 'win32') this.skip()
      const { code, output } = await run(await prepare())
      assert.equal(code, 1, output)
      assert.match(output, expected)
      assert.ok(!/^\s+at .*:\d+:\d+\)?$/m.test(output), `a stack is no help:\n${output}`)
    })

  it('leaves nothing unfinished behind', async () => {
    const names = await readdir(folder, { recursive: true })
    assert.deepEqual(
      names.filter(name => name.endsWith('.tmp') || name.endsWith('.service-plugin')),
      [],
    )
  })
})
