import assert from 'node:assert/strict'
import { mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { unpackArchive, type UnpackedArchive } from '../../core/host/archive.js'
import { extractArchive } from '../../core/host/extract.js'
import { judgeSignature, unreadableKeys, type SignatureEvidence } from '../../core/host/signature.js'
import { Unpacker } from '../../core/host/unpacker.js'
import { DIGESTS_FILE, SIGNATURE_FILE } from '../../sdk/archiveFormat.js'
import { waitFor } from '../support/waitFor.js'
import { makeKey, sealed, writePluginArchive, zipOf, type ZipEntry } from './archives.js'
import { startHost, type TestHost } from './support.js'

const manifest = { name: 'manifest.json', content: '{}' }

describe('a plugin archive', () => {
  let directory: string
  let file: string
  beforeEach(async () => {
    directory = await mkdtemp(join(tmpdir(), 'archive-test-'))
    file = join(directory, 'some.service-plugin')
  })
  afterEach(() => rm(directory, { recursive: true, force: true }))

  const write = (entries: ZipEntry[]): Promise<void> => writeFile(file, zipOf(entries))
  const extract = async (entries: ZipEntry[]): Promise<SignatureEvidence> => {
    await write(entries)
    const target = await mkdtemp(join(directory, 'out-'))
    return extractArchive(file, target)
  }
  const unpack = async (): Promise<UnpackedArchive> => {
    const unpacker = new Unpacker()
    try {
      return await unpackArchive(file, join(directory, 'unpacked'), unpacker)
    } finally {
      await unpacker.close()
    }
  }
  /** Refused, in the thread where it is done, with nothing left of it. */
  const refused = async (why: RegExp): Promise<void> => {
    await assert.rejects(unpack(), (error: Error) => error.name === 'StageError' && why.test(error.message))
    assert.deepEqual(await readdir(join(directory, 'unpacked')), [])
  }

  describe('with a name that no plugin may have is refused:', () => {
    const lead = /leads out of the archive|cannot be read/
    const cases: [string, string | Buffer, RegExp][] = [
      ['one that climbs', '../../evil.js', lead],
      ['one that climbs on its way', 'a/../../evil.js', lead],
      ['one that climbs and returns', 'a/../b.js', lead],
      ['an absolute one', '/etc/evil', lead],
      ['one with a drive', 'C:/evil', lead],
      ['one with backslashes', '..\\evil', lead],
      ['NUL', 'a\0.js', /control/],
      ['a line break', 'a\n.js', /control/],
      ['an escape sequence', '\u001b[2Ja.js', /control/],
      ['an invisible character', 'a\u200b.js', /invisible/],
      ['a turned direction of writing', 'a\u202egpj.js', /invisible/],
      ['bytes that are no text', Buffer.from([0x61, 0xff, 0xfe]), /undecodable/],
      ['an empty part', 'a//b.js', /empty part/],
      ['a dot', './b.js', /empty part/],
      ['nothing', '', /empty part/],
      ['a trailing dot', 'a./b.js', /ends in a dot or a space/],
      ['a trailing space', 'b.js ', /ends in a dot or a space/],
      ['a device', 'con', /device on Windows/],
      ['a device with an ending', 'lib/NUL.txt', /device on Windows/],
      ['a device with a number', 'Com¹.tar.gz', /device on Windows/],
      ['a stream of another file', 'b.js:evil', /no file name may have/],
      ['a wildcard', 'b*.js', /no file name may have/],
      ['a long one', 'x'.repeat(301), /more than 300 characters/],
      ['one of long parts', 'ü'.repeat(130), /more than 255 bytes/],
      ['a deep one', `${'d/'.repeat(20)}x`, /nested deeper than 20/],
    ]
    for (const [what, name, why] of cases)
      it(what, async () => {
        await assert.rejects(extract([manifest, { name, content: 'x' }]), why)
        assert.deepEqual(
          (await readdir(directory)).filter(other => !other.startsWith('out-')),
          ['some.service-plugin'],
        )
      })

    const twins: [string, string[], RegExp][] = [
      ['twice the same', ['a.js', 'a.js'], /comes twice/],
      ['twins that differ in case', ['a.js', 'A.JS'], /same file as "a\.js"/],
      ['folders that differ in case', ['lib/a.js', 'Lib/b.js'], /same file as "lib"/],
      ['twins that differ in the form of an accent', ['caf\u00e9', 'cafe\u0301'], /same file as/],
      ['twins by the folding of letters', ['stra\u00dfe', 'STRASSE'], /same file as/],
      ['a file that is a folder too', ['a', 'a/b'], /both a file and a folder/],
      ['a folder that is a file too', ['a/b', 'a'], /both a file and a folder/],
    ]
    for (const [what, names, why] of twins)
      it(what, async () => {
        await assert.rejects(extract([manifest, ...names.map(name => ({ name, content: 'x' }))]), why)
      })
  })

  it('may hold folders, named or not, and names in any script', async () => {
    const names = ['lib/', 'lib/a.js', 'lib/deep/b.js', 'données/été.txt', '名前.txt', 'con-fig.js', 'console.js', '.env.example']
    const evidence = await extract([manifest, ...names.map(name => ({ name, mode: name.endsWith('/') ? 0o040755 : 0o100755 }))])
    assert.deepEqual(evidence, { kind: 'undigested' })
  })

  it('with a link, a device, a pipe or a socket is refused', async () => {
    for (const type of [0o120000, 0o060000, 0o020000, 0o010000, 0o140000]) {
      await assert.rejects(extract([manifest, { name: 'odd', content: '/etc/passwd', mode: type | 0o777 }]), /is a link or a device/)
      await assert.rejects(extract([manifest, { name: 'odd/', mode: type | 0o777 }]), /is a link or a device/)
    }
  })

  it('gives nothing it unpacks more rights than its owner reading and writing', async () => {
    await write([manifest, { name: 'tool', content: 'x', mode: 0o104777 }])
    const out = join(directory, 'out')
    await mkdir(out)
    await extractArchive(file, out)
    assert.equal((await stat(join(out, 'tool'))).mode & 0o7777, 0o600)
  })

  it('that is encrypted, or lies about sizes and checksums, is refused', async () => {
    await assert.rejects(extract([manifest, { name: 'a', content: 'x', deflate: true, flags: 1 }]), /is encrypted/)
    await assert.rejects(extract([manifest, { name: 'a', content: 'x'.repeat(100), deflate: true, size: 10 }]), /cannot be read/)
    await assert.rejects(extract([manifest, { name: 'a', content: 'x', checksum: 1 }]), /"a" in the archive is damaged/)
  })

  it('without a manifest is refused', async () => {
    await assert.rejects(extract([{ name: 'a/manifest.json', content: '{}' }]), /holds no manifest\.json/)
  })

  it('that declares, or holds, too much is refused', async () => {
    const zeros = Buffer.alloc(64 * 1024 * 1024)
    await write([manifest, ...[1, 2, 3, 4, 5].map(n => ({ name: `zeros-${String(n)}`, content: zeros, deflate: true }))])
    assert.ok((await readFile(file)).length < 2 * 1024 * 1024)
    await refused(/more than 5000 files or 256 MiB/)
    await write([manifest, ...Array.from({ length: 5_000 }, (_, n) => ({ name: String(n) }))])
    await refused(/more than 5000 files/)
    await write([manifest, { name: DIGESTS_FILE, content: ' '.repeat(5 * 1024 * 1024), deflate: true }])
    await refused(/digests\.json in the archive is larger than/)
  })

  it('that is damaged or cut off is refused', async () => {
    await writeFile(file, 'not a zip at all')
    await refused(/cannot be read/)
    await write([manifest, { name: 'whole', content: 'x'.repeat(10_000) }])
    const bytes = await readFile(file)
    await writeFile(file, bytes.subarray(0, bytes.length / 2))
    await refused(/cannot be read/)
    bytes[200]! ^= 1
    await writeFile(file, bytes)
    await refused(/is damaged: its checksum is wrong/)
  })

  describe('with digests', () => {
    const files = { 'manifest.json': '{}', 'a.js': 'a', 'lib/b.js': 'b' }
    const replace = (entries: ZipEntry[], name: string, content: string): ZipEntry[] =>
      entries.map(entry => (entry.name === name ? { ...entry, content } : entry))
    const invalid = (entries: ZipEntry[], why: RegExp) =>
      assert.rejects(extract(entries), (error: Error) => error.name === 'IntegrityError' && why.test(error.message))

    it('is taken when every file is the one that was built', async () => {
      assert.deepEqual(await extract(sealed(files)), { kind: 'unsigned' })
      assert.deepEqual(
        (
          await readdir(
            join(
              directory,
              (await readdir(directory)).find(name => name.startsWith('out-'))!,
            ),
          )
        ).sort(),
        ['a.js', 'lib', 'manifest.json'],
      )
    })

    it('is refused when a file is extra, missing or changed', async () => {
      const whole = sealed(files)
      await invalid([...whole, { name: 'c.js', content: 'c' }], /"c\.js" was added/)
      await invalid(
        whole.filter(({ name }) => name !== 'lib/b.js'),
        /"lib\/b\.js" is missing/,
      )
      await invalid(replace(whole, 'a.js', 'A'), /"a\.js" in the archive was changed/)
      await invalid([...whole, { name: '.integrity/more.json', content: '' }], /does not belong/)
    })

    it('is refused when the digests themselves are damaged', async () => {
      for (const text of ['', '[]', '{"format": "other", "files": {}}', '{"format": "service-plugin-digests-1", "files": {"a.js": 1}}'])
        await invalid(replace(sealed(files), DIGESTS_FILE, text), /digests\.json is damaged/)
    })

    it('is known as signed by a key only when the signature is good', async () => {
      const [key, other] = [makeKey(), makeKey()]
      const signed = sealed(files, key)
      assert.deepEqual(await extract(signed), { kind: 'signed', key: key.publicKey })
      const signature = signed.find(({ name }) => name === SIGNATURE_FILE)!
      await invalid([...sealed({ ...files, 'a.js': 'evil' }), signature], /does not fit the digests/)
      const text = String(signature.content)
      await invalid(replace(signed, SIGNATURE_FILE, text.replace(key.publicKey, other.publicKey)), /does not fit the digests/)
      for (const damaged of ['', '{}', text.replace('ed25519:', 'rsa:'), text.replace('signature-1', 'signature-2')])
        await invalid(replace(signed, SIGNATURE_FILE, damaged), /signature\.json is damaged/)
      await invalid(replace(signed, SIGNATURE_FILE, text.replace(/"signature": ".*"/, '"signature": "AAAA"')), /does not fit/)
      await invalid(
        signed.filter(({ name }) => name !== DIGESTS_FILE),
        /which is missing/,
      )
    })

    it('is judged by the keys that are trusted, however they are written', () => {
      const { publicKey: key } = makeKey()
      const judge = (...trustedKeys: string[]) => judgeSignature({ kind: 'signed', key }, { trustedKeys, required: false }).state
      assert.equal(judge(), 'unknown-key')
      assert.equal(judge(makeKey().publicKey, 'nonsense'), 'unknown-key')
      for (const spelling of [key, ` ${key} `, key.slice('ed25519:'.length), key.replace(/=+$/, '')])
        assert.equal(judge(spelling), 'trusted')
      assert.deepEqual(unreadableKeys([key, 'nonsense', '', `${key}AA`]), ['nonsense', '', `${key}AA`])
    })
  })

  it('is unpacked once for its content, whatever its name and time', async () => {
    await write([manifest, { name: 'a', content: 'one' }])
    const { size } = await stat(file)
    await utimes(file, 1, 1)
    const first = await unpack()
    const { ino } = await stat(first.directory)
    await utimes(file, 2, 2)
    assert.deepEqual(await unpack(), first)
    assert.equal((await stat(first.directory)).ino, ino)
    // Another content of the same size and time is another archive.
    await write([manifest, { name: 'a', content: 'two' }])
    await utimes(file, 1, 1)
    assert.equal((await stat(file)).size, size)
    const second = await unpack()
    assert.notEqual(second.digest, first.digest)
    assert.equal(await readFile(join(second.directory, 'a'), 'utf8'), 'two')
  })

  it('does not hold up the thread that serves while it is unpacked', async () => {
    const content = Buffer.alloc(48 * 1024 * 1024, 'some text that packs well ')
    await write([manifest, { name: 'large', content, deflate: true }])
    const before = performance.eventLoopUtilization()
    await unpack()
    const { utilization } = performance.eventLoopUtilization(before)
    assert.ok(utilization < 0.5, `this thread was busy for ${(utilization * 100).toFixed(0)} % of the time`)
  })

  describe('in a plugin directory', () => {
    let host: TestHost
    afterEach(() => host.stop())
    const put = (name: string, archive: Parameters<typeof writePluginArchive>[1]) => writePluginArchive(join(host.plugins, name), archive)

    it('is unpacked and run like a folder', async () => {
      host = await startHost({ tiers: ['node-permission'] })
      await put('anything-1.0.0.service-plugin', { name: 'packed' })
      await host.core.scan()
      await host.until('packed', 'ready')
      assert.equal(await host.extract('packed', { name: 'a' }), 'v1 read a')
    })

    it('is not reloaded when only its time changes, and is when its content does', async () => {
      host = await startHost({ tiers: ['node-permission'] })
      await put('p.service-plugin', { name: 'packed', text: 'one' })
      await host.core.scan()
      const { current } = await host.until('packed', 'ready')
      await utimes(join(host.plugins, 'p.service-plugin'), 1, 1)
      await host.core.scan()
      await host.until('packed', 'ready')
      assert.equal(host.core.supervisor('packed')?.current, current)
      await put('p.service-plugin', { name: 'packed', text: 'two' })
      await host.core.scan()
      await waitFor('the new content to serve', () => host.core.supervisor('packed')!.current !== current)
    })

    it('stops when its key is trusted no longer, and runs again when it is', async () => {
      const key = makeKey()
      host = await startHost({ tiers: ['node-permission'], settings: { requireSignature: true, trustedKeys: [key.publicKey] } })
      await put('p.service-plugin', { name: 'signed', key })
      await put('q.service-plugin', { name: 'unsigned' })
      await host.add('folder')
      await host.core.scan()
      await host.until('signed', 'ready')
      const reasons = () => Object.fromEntries(host.core.rejections.map(({ id, reason }) => [id, reason]))
      assert.match(reasons().unsigned!, /RequireSignature is on, and its files are as they were built, but nobody signed them/)
      assert.match(reasons().folder!, /RequireSignature is on, and a folder carries no signature/)
      host.settings.trustedKeys = []
      await host.core.scan()
      assert.equal(host.core.supervisor('signed'), undefined)
      assert.match(reasons().signed!, /a key that is not in Service:Plugins:TrustedKeys/)
      host.settings.trustedKeys = [key.publicKey]
      await host.core.scan()
      await host.until('signed', 'ready')
    })

    it('leaves the old version serving when it is replaced by one that nobody trusted signed', async () => {
      const key = makeKey()
      host = await startHost({ tiers: ['node-permission'], settings: { requireSignature: true, trustedKeys: [key.publicKey] } })
      await put('p.service-plugin', { name: 'signed', key })
      await host.core.scan()
      const supervisor = await host.until('signed', 'ready')
      const { current } = supervisor
      await put('p.service-plugin', { name: 'signed', version: '2.0.0', key: makeKey() })
      await host.core.scan()
      assert.equal(supervisor.current, current)
      assert.match(supervisor.lastError ?? '', /its changed files are rejected: .*not in Service:Plugins:TrustedKeys/)
    })
  })
})
