import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash, generateKeyPairSync } from 'node:crypto'
import { createWriteStream } from 'node:fs'
import { chmod, mkdir, mkdtemp, readdir, readFile, realpath, rm, stat, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { extractArchive } from '../../core/host/extract.js'
import type { SignatureEvidence } from '../../core/host/signature.js'
import { archivedFiles } from './zip.js'
import { startPlugin } from '../../sdk/testing.js'

const root = fileURLToPath(new URL('../..', import.meta.url))

interface Outcome {
  code: number
  stdout: string
  stderr: string
}

const run = (program: string, args: string[], cwd: string): Promise<Outcome> =>
  new Promise(resolve => {
    const child = execFile(program, args, { cwd, env: { ...process.env, NODE_OPTIONS: '' } }, (_error, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    )
  })

describe('service dev', () => {
  let folder: string
  const service = (...args: string[]): Promise<Outcome> => run(process.execPath, [join(root, 'sdk/bin/service.js'), 'dev', ...args], folder)
  const write = async (path: string, content: unknown): Promise<void> => {
    await mkdir(dirname(join(folder, path)), { recursive: true })
    await writeFile(join(folder, path), typeof content === 'string' ? content : JSON.stringify(content, null, 2))
  }
  /** What `npm install` would do. */
  const install = async (name: string): Promise<void> => {
    await mkdir(join(folder, name, 'node_modules/@agent-gateway'), { recursive: true })
    await symlink(join(root, 'sdk'), join(folder, name, 'node_modules/@agent-gateway/sdk'))
    await symlink(join(root, 'node_modules/@types'), join(folder, name, 'node_modules/@types'))
  }
  const unpack = async (archive: string, to: string): Promise<string[]> => {
    const names: string[] = []
    for await (const { name, stream } of archivedFiles(join(folder, archive))) {
      names.push(name)
      await mkdir(dirname(join(folder, to, name)), { recursive: true })
      await pipeline(stream, createWriteStream(join(folder, to, name)))
    }
    return names
  }

  beforeEach(async () => {
    folder = await realpath(await mkdtemp(join(tmpdir(), 'service-dev-')))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  for (const kind of ['channel', 'extractor', 'model', 'embedding']) {
    it(`makes a new ${kind} that type-checks, builds, passes its own test, and runs out of its archive alone`, async () => {
      assert.equal((await service('new', 'my-plugin', '--kind', kind)).code, 0)
      await install('my-plugin')
      const built = await service('build', 'my-plugin')
      assert.deepEqual([built.code, built.stderr], [0, ''])
      const checks = await Promise.all([
        run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', 'my-plugin'], folder),
        run(process.execPath, ['--test', 'my-plugin/test/plugin.test.mjs'], folder),
      ])
      for (const { code, stdout, stderr } of checks) assert.equal(code, 0, stdout + stderr)
      assert.deepEqual(await unpack('my-plugin/my-plugin-0.1.0.service-plugin', 'unpacked/my-plugin'), [
        '.integrity/digests.json',
        'manifest.json',
        'my-plugin.cjs',
      ])
      await rm(join(folder, 'my-plugin'), { recursive: true })
      const alone = join(folder, 'unpacked/my-plugin')
      const plugin = await startPlugin(alone, {
        dataDir: join(folder, 'data'),
        nodeArgs: ['--experimental-permission', `--allow-fs-read=${alone}`, `--allow-fs-write=${join(folder, 'data')}`],
      })
      assert.equal(plugin.manifest?.name, 'my-plugin')
      assert.deepEqual(await plugin.peer.request('plugin.ping', {}), {})
      assert.equal((await plugin.stop()).code, 0)
    })
  }

  it('builds the same archive from the same folder, byte for byte', async () => {
    await service('new', 'same', '--kind', 'extractor')
    await install('same')
    const hashes = []
    for (const out of ['a', 'b']) {
      await service('build', 'same', '--out', `${out}/x.service-plugin`)
      hashes.push(
        createHash('sha256')
          .update(await readFile(join(folder, out, 'x.service-plugin')))
          .digest('hex'),
      )
    }
    assert.equal(hashes[0], hashes[1])
  })

  describe('signs archives', () => {
    const plain = { name: 'plain', version: '1.0.0', description: 'd', entrypoint: 'index.js', pluginInterface: 'ModelProvider' }
    const key = 'keys/mine.key'
    const built = async (...options: string[]): Promise<SignatureEvidence> => {
      assert.deepEqual(
        await service('build', 'plain', '--out', 'x.service-plugin', ...options).then(({ code, stderr }) => [code, stderr]),
        [0, ''],
      )
      await rm(join(folder, 'out'), { recursive: true, force: true })
      await mkdir(join(folder, 'out'))
      return extractArchive(join(folder, 'x.service-plugin'), join(folder, 'out'))
    }
    let publicKey: string
    beforeEach(async () => {
      await write('plain/manifest.json', plain)
      await write('plain/index.js', 'console.log("hello")')
      const { code, stdout } = await service('keygen', '--out', key)
      assert.equal(code, 0)
      publicKey = stdout.trim().split('\n').at(-1)!
    })

    it('with a key of keygen, and the gateway knows whose it is', async () => {
      assert.deepEqual(await built(), { kind: 'unsigned' })
      assert.deepEqual(await built('--sign', key), { kind: 'signed', key: publicKey })
      assert.deepEqual((await readdir(join(folder, 'out'))).sort(), ['manifest.json', 'plain.cjs'])
    })

    it('with a key that only its owner can read, and that is never written over', async () => {
      assert.equal((await stat(join(folder, key))).mode & 0o777, 0o600)
      const before = await readFile(join(folder, key), 'utf8')
      const again = await service('keygen', '--out', key)
      assert.deepEqual([again.code, await readFile(join(folder, key), 'utf8')], [1, before])
      assert.match(again.stderr, /is there already/)
      assert.ok(!again.stdout.includes('PRIVATE') && !again.stderr.includes('PRIVATE'))
      await chmod(join(folder, key), 0o640)
      const { code, stderr } = await service('build', 'plain', '--sign', key)
      assert.equal(code, 1)
      assert.match(stderr, /may be read or written by others than its owner: chmod 600/)
    })

    it('with no other kind of key, and builds nothing then', async () => {
      const rsa = generateKeyPairSync('rsa', { modulusLength: 2048 }).privateKey.export({ type: 'pkcs8', format: 'pem' }).toString()
      for (const [text, why] of [
        ['nonsense', /holds no unencrypted PEM key/],
        [rsa, /a key for rsa, not Ed25519/],
      ] as const) {
        await writeFile(join(folder, 'other.key'), text, { mode: 0o600 })
        const { code, stderr } = await service('build', 'plain', '--sign', 'other.key')
        assert.equal(code, 1)
        assert.match(stderr, why)
      }
      assert.match((await service('build', 'plain', '--sign', 'none.key')).stderr, /none\.key cannot be read: make a key/)
      assert.match((await service('build', 'plain', '--sign', key, '--no-archive')).stderr, /cannot be used with/)
      assert.deepEqual((await readdir(join(folder, 'plain'))).sort(), ['index.js', 'manifest.json'])
    })

    it('and refuses names that no gateway would unpack', async () => {
      for (const name of ['lib/NUL.txt', 'lib/a:b', '.integrity/x']) {
        await rm(join(folder, 'plain'), { recursive: true })
        await write('plain/manifest.json', { ...plain, files: [name.split('/')[0]] })
        await write('plain/index.js', '')
        await write(`plain/${name}`, 'x')
        const { code, stderr } = await service('build', 'plain')
        assert.equal(code, 1)
        assert.match(stderr, /^The file name ".*" (is|holds|has) .*: rename it/m)
      }
    })
  })

  it('leaves the archive out with --no-archive', async () => {
    await service('new', 'only', '--kind', 'extractor')
    await install('only')
    assert.equal((await service('build', 'only', '--no-archive')).code, 0)
    assert.deepEqual(await readdir(join(folder, 'only/publish')), ['only.cjs'])
    assert.ok(!(await readdir(join(folder, 'only'))).some(name => name.endsWith('.service-plugin')))
  })

  it('bundles CommonJS packages that call require', async () => {
    await service('new', 'old', '--kind', 'extractor')
    await install('old')
    await write('old/node_modules/legacy/package.json', { name: 'legacy', version: '1.0.0', main: 'index.js' })
    await write('old/node_modules/legacy/index.js', "module.exports = require('node:path').sep + require('util').format('%s', 'ok')")
    await write(
      'old/src/index.ts',
      "import legacy from 'legacy'\nimport { defineDocumentExtractor } from '@agent-gateway/sdk'\ndefineDocumentExtractor({ extract: () => ({ text: legacy }) })\n",
    )
    assert.equal((await service('build', 'old')).code, 0)
    const plugin = await startPlugin(join(folder, 'old'))
    assert.equal((await plugin.extract({ name: 'a.old', content: '' })).text, '/ok')
    await plugin.stop()
  })

  it('builds an ES module where the program needs one, and CommonJS else; never both stand there', async () => {
    await service('new', 'either', '--kind', 'extractor')
    await install('either')
    await write('either/node_modules/legacy/package.json', { name: 'legacy', version: '1.0.0', main: 'index.js' })
    await write('either/node_modules/legacy/index.js', "module.exports = require('util').format('%s', 'ok')")
    await write('either/node_modules/own-file/package.json', { name: 'own-file', version: '1.0.0', main: 'index.mjs' })
    await write('either/node_modules/own-file/index.mjs', 'export const scheme = () => String(import.meta.url).slice(0, 5)')
    const text = {
      '"plain"': 'either.cjs',
      "await Promise.resolve('awaited ' + legacy)": 'either.mjs',
      'String(require.main === module)': 'either.cjs',
      "import.meta.url.slice(0, 5) + ' ' + legacy": 'either.mjs',
      "scheme() + ' by a package'": 'either.mjs',
    }
    for (const [expression, file] of Object.entries(text)) {
      const imports = [
        "import legacy from 'legacy'\nimport { defineDocumentExtractor } from '@agent-gateway/sdk'\n",
        expression.includes('scheme') ? "// @ts-ignore\nimport { scheme } from 'own-file'\n" : '',
      ].join('')
      await write(
        'either/src/index.ts',
        `${imports}const text = ${expression}\ndefineDocumentExtractor({ extract: () => ({ text: [text, legacy].join() }) })\n`,
      )
      const { code, stderr } = await service('build', 'either')
      assert.deepEqual([code, stderr], [0, ''])
      assert.deepEqual(await readdir(join(folder, 'either/publish')), [file])
      assert.ok((await unpack('either/either-0.1.0.service-plugin', `out-${file}`)).includes(file))
      const plugin = await startPlugin(join(folder, 'either'))
      assert.match(
        (await plugin.extract({ name: 'a.either', content: '' })).text,
        /^(plain|awaited ok|true|file: ok|file: by a package),ok$/,
      )
      await plugin.stop()
    }
  })

  it('archives a program in another language with its configuration and files', async () => {
    const manifest = { name: 'py', version: '2.0.0', description: 'd', entrypoint: 'py', pluginInterface: 'ModelProvider', files: ['lib'] }
    await write('py/manifest.json', manifest)
    await write('py/py.runtimeconfig.json', { command: ['python3', '-B', 'py', 'extra.txt', '--flag'] })
    for (const file of ['py', 'extra.txt', 'lib/b.py', 'lib/deep/a.py', 'not-listed.txt']) await write(`py/${file}`, file)
    assert.equal((await service('build', 'py')).code, 0)
    const expected = ['.integrity/digests.json', 'extra.txt', 'lib/b.py', 'lib/deep/a.py', 'manifest.json', 'py', 'py.runtimeconfig.json']
    assert.deepEqual(await unpack('py/py-2.0.0.service-plugin', 'out'), expected)
    assert.equal(await readFile(join(folder, 'out/lib/deep/a.py'), 'utf8'), 'lib/deep/a.py')
  })

  describe('says what is wrong, where, and what to write instead', () => {
    const complete = { name: 'x', version: '1.0.0', description: 'd', entrypoint: 'index.js', pluginInterface: 'ModelProvider' }
    const cases: [string, string | object, RegExp][] = [
      [
        'a missing name',
        { ...complete, name: undefined },
        /p\/manifest\.json:1:1: error: name: is missing: write for example "name": "my-plugin"/,
      ],
      [
        'a version that is no SemVer',
        { ...complete, version: '1.0' },
        /manifest\.json:3:14: error: version: "1\.0" is no SemVer version: write for example "version": "1\.0\.0"/,
      ],
      ['a blank description', { ...complete, description: ' ' }, /:4:18: error: description: must be a text/],
      [
        'no entrypoint',
        { ...complete, entrypoint: undefined },
        /error: entrypoint: is missing: write for example "entrypoint": "src\/index\.ts"/,
      ],
      [
        'an entrypoint that does not exist',
        { ...complete, entrypoint: 'nowhere.js' },
        /:5:17: error: entrypoint: "nowhere\.js" does not exist: create it, or correct the path/,
      ],
      [
        'an entrypoint outside the folder',
        { ...complete, entrypoint: '../index.js' },
        /error: entrypoint: "\.\.\/index\.js" leaves the plugin's folder/,
      ],
      [
        'no pluginInterface',
        { ...complete, pluginInterface: undefined },
        /error: pluginInterface: is missing: write "pluginInterface": with one of ChannelAdapter/,
      ],
      ['a Tool', { ...complete, pluginInterface: 'Tool' }, /:6:22: error: pluginInterface: Tool plugins are not taken/],
      [
        'an invalid channel type',
        { ...complete, pluginInterface: 'ChannelAdapter', channelType: '9' },
        /error: channelType: "9" does not match/,
      ],
      [
        'a list of files that is none',
        { ...complete, files: 'data' },
        /:7:12: error: files: must be an array of paths, not "data": write for example "files"/,
      ],
      [
        'a file that does not exist, at its own place',
        { ...complete, files: ['index.js', 'x', 'data.json'] },
        /:10:5: error: files\[2\]: "data\.json" does not exist/,
      ],
      ['no extension', { ...complete, pluginInterface: 'DocumentExtractor' }, /Write for example "supportedExtensions": \["\.srt"\]/],
      ['a comma too many', '{\n  "name": "x",\n}', /:3:1: error: no valid JSON: remove the comma before "}"/],
      ['single quotes', '{\n  "name": \'x\'\n}', /:2:11: error: no valid JSON: write double quotes/],
      ['a comment', '{ // c\n}', /:1:3: error: no valid JSON: a field name in double quotes/],
      ['a file that ends too early', '{"a": [1, 2', /:1:12: error: no valid JSON: a comma or "]" is missing/],
      ['text that is no object', '"text"', /:1:1: error: is missing: write "pluginInterface"/],
    ]
    for (const [what, manifest, message] of cases) {
      it(`of ${what}`, async () => {
        await write('p/manifest.json', manifest)
        await write('p/index.js', '')
        const { code, stderr } = await service('validate', 'p')
        assert.equal(code, 1)
        assert.match(stderr, message)
      })
    }

    it('of warnings, which stop nothing', async () => {
      await write('p/manifest.json', { ...complete, settings: [{ name: 'port', type: 'number' }] })
      await write('p/index.js', '')
      const { code, stdout, stderr } = await service('validate', 'p')
      assert.deepEqual([code, stdout], [0, 'x 1.0.0 is a valid ModelProvider\n'])
      assert.match(stderr, /:10:15: warning: settings\[0\]\.type: must be "string" or "secret", not "number"/)
    })

    it('of fields that are nearly one of the known, while others are left in peace', async () => {
      const settings = [{ name: 'apiToken', requierd: true, hint: 'from the settings page' }]
      await write('p/manifest.json', { ...complete, suportedExtensions: ['.x'], Permission: {}, homepage: 'https://example.com', settings })
      await write('p/index.js', '')
      const { code, stderr } = await service('validate', 'p')
      assert.equal(code, 0)
      assert.match(stderr, /:7:25: warning: suportedExtensions: is no field of a manifest: write "supportedExtensions"/)
      assert.match(stderr, /:10:17: warning: Permission: is no field of a manifest: write "permissions"/)
      assert.match(stderr, /warning: settings\[0\]\.requierd: is no field of a manifest: write "required"/)
      assert.match(stderr, /apiToken" sounds like a secret .* Write "type": "secret"/)
      assert.doesNotMatch(stderr, /homepage|hint/)
    })

    it('of a folder without a manifest', async () => {
      const { code, stderr } = await service('build', '.')
      assert.equal(code, 1)
      assert.match(stderr, /There is no .*manifest\.json\. .*service dev new/)
    })

    it('of source code that cannot be bundled', async () => {
      await write('p/manifest.json', complete)
      await write('p/index.js', "import 'not-installed'\nconst = 5")
      const { code, stderr } = await service('build', 'p')
      assert.equal(code, 1)
      assert.match(stderr, /index\.js:2:7: error:/)
      await write('p/index.js', "import 'not-installed'")
      assert.match((await service('build', 'p')).stderr, /index\.js:1:8: error: Could not resolve "not-installed".*run npm install first/)
    })

    it('of a program in another language without its configuration', async () => {
      await write('p/manifest.json', { ...complete, entrypoint: 'run.py' })
      await write('p/run.py', '')
      const { stderr } = await service('build', 'p')
      assert.match(stderr, /:5:17: error: entrypoint: "run\.py" is no JavaScript, so it needs a runtime configuration/)
      assert.match(stderr, /write run\.runtimeconfig\.json beside it, with \{"command": \["python3", "run\.py"\]\}/)
      await write('p/run.runtimeconfig.json', { command: 'python3' })
      assert.match((await service('build', 'p')).stderr, /:5:17: error: entrypoint: run\.runtimeconfig\.json: "command" must be an array/)
      await write('p/run.runtimeconfig.json', { command: ['python3', 'run.py'] })
      assert.equal((await service('validate', 'p')).code, 0)
      await write('p/x.js', '')
      assert.match((await service('validate', 'p')).stderr, /is no JavaScript, but the gateway would start x\.js: remove one of them/)
    })

    it('of a bad name and of a folder in use', async () => {
      assert.match((await service('new', 'My Plugin', '--kind', 'channel')).stderr, /is no good name/)
      await write('taken/file', '')
      assert.match((await service('new', 'taken', '--kind', 'channel')).stderr, /is not empty/)
      assert.match((await service('new', 'kindless', '--kind', 'tool')).stderr, /Allowed choices are channel, extractor/)
    })
  })
})
