import assert from 'node:assert/strict'
import { chmod, mkdir, mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { discover, type Discovered } from '../../core/host/discovery.js'
import { Unpacker } from '../../core/host/unpacker.js'
import { waitFor } from '../support/waitFor.js'
import { addPlugin, startHost, type TestHost } from './support.js'

/** A minimal extractor's manifest. */
const extractor = { version: '1.0.0', pluginInterface: 'DocumentExtractor', supportedExtensions: ['.txt'] }

describe('discovery', () => {
  let root: string
  let plugins: string
  beforeEach(async () => {
    root = await mkdtemp(join(tmpdir(), 'discovery-test-'))
    plugins = join(root, 'plugins')
    await mkdir(plugins)
  })
  afterEach(() => rm(root, { recursive: true, force: true }))

  const write = async (path: string, content: string | object = ''): Promise<string> => {
    const file = join(root, path)
    await mkdir(dirname(file), { recursive: true })
    await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
    return file
  }
  /** A folder below `plugins/` (or another scan directory) with a manifest and an empty program of the folder's name. */
  const plugin = async (path: string, manifest: object = {}): Promise<string> => {
    const folder = path.includes('/') ? path : `plugins/${path}`
    await write(`${folder}/manifest.json`, { ...extractor, ...manifest })
    await write(`${folder}/${folder.split('/').at(-1)!}.js`)
    return join(root, folder)
  }
  const scan = (...directories: string[]): Promise<Discovered> =>
    discover({
      directories: directories.length > 0 ? directories : [plugins],
      unpackDir: join(root, 'unpacked'),
      unpacker: new Unpacker(),
      policy: { trustedKeys: [], required: false },
    })
  const ids = ({ accepted }: Discovered): string[] => accepted.map(({ id }) => id)
  const rejection = async (why: RegExp, found?: Discovered): Promise<void> => {
    const { rejected } = found ?? (await scan())
    assert.equal(rejected.length, 1, JSON.stringify(rejected))
    assert.match(rejected[0]!.reason, why)
  }

  describe('finds the program', () => {
    const entryOf = async (...files: string[]) => {
      await write('plugins/some/manifest.json', { ...extractor, name: 'another-name' })
      for (const file of files)
        await write(`plugins/some/${file}`, file.endsWith('.runtimeconfig.json') ? { command: ['python3', 'main.py'] } : '')
      return scan()
    }
    const orders: [string, string[]][] = [
      ['some.js', ['some.mjs', 'some.cjs', 'publish/some.js', 'x.runtimeconfig.json', 'x.py']],
      ['some.mjs', ['some.cjs', 'publish/some.js', 'publish/some.mjs']],
      ['some.cjs', ['publish/some.js', 'index.js', 'another-name.js']],
      ['publish/some.js', ['publish/some.mjs', 'x.runtimeconfig.json', 'x.py']],
      ['publish/some.mjs', ['publish/some.cjs', 'x.runtimeconfig.json', 'x.py']],
      ['publish/some.cjs', ['another-name.js', 'publish/another-name.js', 'x.runtimeconfig.json', 'x.py']],
      ['x.py', ['x.runtimeconfig.json', 'another-name.js', 'publish/y.runtimeconfig.json', 'publish/y.py']],
      ['publish/y.py', ['publish/y.runtimeconfig.json', 'y.py', 'another-name.js']],
    ]
    for (const [expected, others] of orders)
      it(`${expected} before ${others.join(', ')}`, async () => {
        const { accepted, rejected } = await entryOf(expected, ...others)
        assert.deepEqual(rejected, [])
        assert.equal(accepted[0]!.entry.file, expected)
        assert.equal(accepted[0]!.entry.kind, expected.endsWith('.py') ? 'command' : 'javascript')
      })

    it('by the folder, not by the entrypoint or the name of the manifest', async () => {
      await write('plugins/some/manifest.json', { ...extractor, name: 'other', entrypoint: 'main.js' })
      await write('plugins/some/main.js')
      await write('plugins/some/other.js')
      await rejection(/no program found: expected some\.js/)
    })

    it('and refuses a directory of its name, a damaged configuration, and a program that needs a command', async () => {
      await write('plugins/a/manifest.json', extractor)
      await mkdir(join(plugins, 'a/a.js'))
      await write('plugins/b/manifest.json', extractor)
      await write('plugins/b/x.runtimeconfig.json', '{')
      await write('plugins/b/x.py')
      await write('plugins/c/manifest.json', extractor)
      await write('plugins/c/x.runtimeconfig.json', {})
      await write('plugins/c/x.py')
      await write('plugins/d/manifest.json', extractor)
      await write('plugins/d/x.runtimeconfig.json', { command: [] })
      await write('plugins/d/x.py')
      const reasons = (await scan()).rejected.map(({ reason }) => reason)
      assert.equal(reasons.length, 4)
      for (const [index, why] of [
        /no program found/,
        /is not valid JSON/,
        /"command" must say how to run it/,
        /must be an array of 1 to 32 words/,
      ].entries())
        assert.match(reasons[index]!, why)
    })
  })

  it('never takes the manifest of one version for the files of another, while they change', async () => {
    const folder = await plugin('moving')
    const versions = new Map<string, Set<string>>()
    const end = new AbortController()
    const writer = (async () => {
      for (let n = 0; !end.signal.aborted; n++) {
        const next = { ...extractor, version: `1.0.${n}`, description: 'x'.repeat(n % 100) }
        await writeFile(join(root, 'next.json'), JSON.stringify(next))
        await rename(join(root, 'next.json'), join(folder, 'manifest.json'))
      }
    })()
    for (let n = 0; n < 200; n++) {
      for (const { listing, manifest } of (await scan()).accepted)
        versions.set(listing.signature, (versions.get(listing.signature) ?? new Set()).add(manifest.description ?? ''))
    }
    end.abort()
    await writer
    for (const described of versions.values()) assert.equal(described.size, 1)
    const { accepted } = await scan()
    assert.equal(accepted.length, 1)
  })

  it('takes name and version from the folder and 0.0.0 where the manifest has none', async () => {
    await plugin('Plain', { version: undefined })
    const { accepted } = await scan()
    assert.deepEqual([accepted[0]!.id, accepted[0]!.manifest.version], ['Plain', '0.0.0'])
  })

  it('skips silently what is no plugin: files, hidden names, folders without a manifest or an interface', async () => {
    await write('plugins/readme.txt', 'x')
    await write('plugins/empty/file.js')
    await plugin('.hidden')
    await write('plugins/.half.service-plugin', 'not whole yet')
    await plugin('skill', { pluginInterface: undefined })
    await plugin('list')
    await write('plugins/list/manifest.json', '[1]')
    for (const { accepted, rejected } of [await scan(), await scan(join(root, 'nowhere'))]) assert.deepEqual([accepted, rejected], [[], []])
  })

  it('reads a manifest that begins with a byte-order mark', async () => {
    await plugin('marked')
    await write('plugins/marked/manifest.json', `\ufeff${JSON.stringify(extractor)}`)
    assert.deepEqual(ids(await scan()), ['marked'])
  })

  it('rejects Tool plugins, extractors of nothing and impossible channel types, each with its reason', async () => {
    await plugin('a', { pluginInterface: 'Tool' })
    await plugin('b', { pluginInterface: 'ITool' })
    await plugin('c', { supportedExtensions: [] })
    await plugin('d', { pluginInterface: 'ChannelAdapter', channelType: '1' })
    await plugin('e', { pluginInterface: 'Whatever' })
    const { accepted, rejected } = await scan()
    assert.deepEqual(accepted, [])
    assert.deepEqual(
      rejected.map(({ id }) => id),
      ['a', 'b', 'c', 'd', 'e'],
    )
    for (const [index, why] of [/Tool/, /Tool/, /supportedExtensions/, /channelType/, /none of/].entries())
      assert.match(rejected[index]!.reason, why)
  })

  it('rejects a manifest that is too large, is damaged, or is no file', async () => {
    await plugin('large', { metadata: { text: 'x'.repeat(300 * 1024) } })
    await plugin('odd')
    await rm(join(plugins, 'odd/manifest.json'))
    await mkdir(join(plugins, 'odd/manifest.json'))
    await plugin('torn')
    await write('plugins/torn/manifest.json', '{"pluginInterface": "Docu')
    const { accepted, rejected } = await scan()
    assert.deepEqual(accepted, [])
    for (const [index, why] of [/larger than 262144 bytes/, /not a regular file/, /not valid JSON/].entries())
      assert.match(rejected[index]!.reason, why)
  })

  it('refuses links: to a plugin, to a program or a manifest elsewhere, and out of it anywhere below', async () => {
    const elsewhere = await plugin('elsewhere/real')
    await symlink(elsewhere, join(plugins, 'linked'))
    await rejection(/it is a link/)
    await rm(join(plugins, 'linked'))

    await plugin('some')
    await rm(join(plugins, 'some/some.js'))
    await symlink(join(elsewhere, 'real.js'), join(plugins, 'some/some.js'))
    await rejection(/some\.js is a link out of the plugin's directory/)

    await rm(join(plugins, 'some'), { recursive: true })
    await plugin('some')
    await rm(join(plugins, 'some/manifest.json'))
    await symlink(join(elsewhere, 'manifest.json'), join(plugins, 'some/manifest.json'))
    await rejection(/manifest\.json is not a regular file/)

    await rm(join(plugins, 'some'), { recursive: true })
    await plugin('some')
    await write('plugins/some/lib/deep/file')
    await symlink('/etc', join(plugins, 'some/lib/deep/etc'))
    await rejection(/etc is a link out/)
  })

  it('leaves links inside a plugin out of what runs, and does not follow a dangling one beside it', async () => {
    await plugin('some')
    await symlink('some.js', join(plugins, 'some/alias.js'))
    await symlink('/nowhere/at/all', join(plugins, 'dangling'))
    const { accepted, rejected } = await scan()
    assert.deepEqual(rejected, [])
    assert.deepEqual(accepted[0]!.listing.files, ['manifest.json', 'some.js'])
  })

  it('finds a plugin although a link to it lies before it in the same directory', async () => {
    const real = await plugin('real')
    await symlink(real, join(plugins, 'a-link'))
    const found = await scan()
    assert.deepEqual(ids(found), ['real'])
    await rejection(/it is a link/, found)
  })

  it('refuses what everyone may write: the program, a folder, an archive, the scan directory', async () => {
    const folder = await plugin('some')
    await chmod(join(folder, 'some.js'), 0o666)
    await rejection(/some\.js may be written by everyone/)
    await chmod(join(folder, 'some.js'), 0o644)
    await chmod(folder, 0o777)
    await rejection(/its directory may be written by everyone/)
    await chmod(folder, 0o755)
    const archive = await write('plugins/x.service-plugin', 'x')
    await chmod(archive, 0o666)
    await rejection(/the archive may be written by everyone/)
    await rm(archive)
    await chmod(plugins, 0o777)
    const found = await scan()
    assert.deepEqual(ids(found), [])
    await rejection(/everyone may put plugins into this directory/, found)
  })

  it('counts one real path once, by whatever way it is scanned', async () => {
    await plugin('one')
    await symlink(plugins, join(root, 'alias'))
    const found = await scan(plugins, join(root, 'alias'), `${plugins}/../plugins`)
    assert.deepEqual([ids(found), found.rejected], [['one'], []])
  })

  describe('of one id in two places', () => {
    const duplicates = async (first: object, second: object): Promise<Discovered> => {
      await plugin('first/twin', first)
      await plugin('second/twin', second)
      return scan(join(root, 'first'), join(root, 'second'))
    }
    const winner = ({ accepted }: Discovered): string => {
      assert.equal(accepted.length, 1)
      return accepted[0]!.source.slice(root.length + 1)
    }

    const cases: [string, string, string][] = [
      ['1.9.0', '1.10.0', 'second/twin'],
      ['1.10.0', '1.9.0', 'first/twin'],
      ['1.0.0-rc.1', '1.0.0', 'second/twin'],
      ['1.0.0-rc.2', '1.0.0-rc.10', 'second/twin'],
      ['1.0.0', '1.0.0', 'first/twin'],
      ['1.0.0+a', '1.0.0+b', 'first/twin'],
    ]
    for (const [one, two, expected] of cases)
      it(`${one} and ${two}: ${expected} is kept, the other shown`, async () => {
        const found = await duplicates({ version: one }, { version: two })
        assert.equal(winner(found), expected)
        const [loser] = found.rejected
        assert.equal(loser!.version, expected === 'first/twin' ? two : one)
        assert.match(loser!.reason, new RegExp(`the same id as .*${expected}, which has version`))
      })

    it('their letters may differ in case', async () => {
      const found = await duplicates({ name: 'Some-Twin' }, { name: 'sOME-tWIN', version: '2.0.0' })
      assert.deepEqual(ids(found), ['sOME-tWIN'])
      await rejection(/the same id as/, found)
    })

    it('a rejected one is no rival', async () => {
      const found = await duplicates({ version: '1.0.0' }, { version: '2.0.0', pluginInterface: 'Tool' })
      assert.equal(winner(found), 'first/twin')
    })
  })

  it('shows that a directory holds more than it takes', async () => {
    await Promise.all(Array.from({ length: 501 }, (_, index) => mkdir(join(plugins, String(index)))))
    await rejection(/more than 500 entries/)
  })

  it('refuses more files, and deeper ones, than a plugin may have', async () => {
    await plugin('deep')
    await write(`plugins/deep/${'d/'.repeat(22)}file`)
    await rejection(/nested deeper than 20/)
  })

  const serves = (host: TestHost, version: string) =>
    waitFor(`version ${version}`, () => host.core.supervisor('twin')?.current?.candidate.manifest.version === version)

  it('keeps a running plugin whose files are damaged, and lets no lower version take its place', async () => {
    const host = await startHost({ tiers: ['node-permission'] })
    try {
      await addPlugin(join(host.plugins, 'new'), 'new', 'behave', { name: 'twin', version: '2.0.0' })
      await addPlugin(join(host.plugins, 'old'), 'old', 'behave', { name: 'twin', version: '1.0.0' })
      await host.core.scan()
      const supervisor = await host.until('twin', 'ready')
      const { pid } = supervisor.current!.process
      const manifest = join(host.plugins, 'new/manifest.json')
      await rename(manifest, `${manifest}.whole`)
      await writeFile(manifest, '{"name": "twin", "vers')
      await host.core.scan()
      assert.deepEqual([supervisor.state, supervisor.current?.process.pid, supervisor.candidate.manifest.version], ['ready', pid, '2.0.0'])
      assert.match(supervisor.lastError ?? '', /its changed files are rejected: .*not valid JSON/)
      assert.ok(host.core.rejections.some(({ version, reason }) => version === '1.0.0' && /is damaged at the moment/.test(reason)))

      await rename(`${manifest}.whole`, manifest)
      await host.core.scan()
      assert.equal(supervisor.current?.process.pid, pid)

      // Gone is not damaged: then the lower one serves.
      await rm(join(host.plugins, 'new'), { recursive: true })
      await host.core.scan()
      await serves(host, '1.0.0')
    } finally {
      await host.stop()
    }
  })

  it('lets a higher version replace a running plugin whose files are damaged', async () => {
    const host = await startHost({ tiers: ['node-permission'] })
    try {
      await addPlugin(join(host.plugins, 'first'), 'first', 'behave', { name: 'twin', version: '1.0.0' })
      await host.core.scan()
      await host.until('twin', 'ready')
      await writeFile(join(host.plugins, 'first/manifest.json'), '{')
      await addPlugin(join(host.plugins, 'next'), 'next', 'behave', { name: 'twin', version: '1.0.1' })
      await host.core.scan()
      await serves(host, '1.0.1')
    } finally {
      await host.stop()
    }
  })
})
