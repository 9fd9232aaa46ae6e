import assert from 'node:assert/strict'
import { parseManifest, type Manifest } from '../../sdk/manifest.js'

const directoryName = 'my-folder'
const channel = { name: 'acme', version: '1.2.3', pluginInterface: 'ChannelAdapter' }
const extractor = { name: 'subs', version: '1.0.0', pluginInterface: 'DocumentExtractor', supportedExtensions: ['.srt'] }

function accepted(json: unknown): Manifest & { warnings: string[] } {
  const parsed = parseManifest(json, { directoryName })
  assert.equal(parsed.kind, 'manifest', JSON.stringify(parsed))
  return { ...(parsed as { manifest: Manifest }).manifest, warnings: (parsed as { warnings: string[] }).warnings }
}

function rejectedFor(json: unknown, reason: RegExp): void {
  const parsed = parseManifest(json, { directoryName })
  assert.equal(parsed.kind, 'rejected', JSON.stringify(parsed))
  assert.match((parsed as { reason: string }).reason, reason)
}

function warns(json: unknown, ...expected: RegExp[]): Manifest {
  const manifest = accepted(json)
  assert.equal(manifest.warnings.length, expected.length, JSON.stringify(manifest.warnings))
  for (const [index, pattern] of expected.entries()) assert.match(manifest.warnings[index]!, pattern)
  return manifest
}

describe('a plugin manifest', () => {
  describe('pluginInterface', () => {
    it('is the only field that is enforced', () => {
      assert.deepEqual(accepted({ pluginInterface: 'ModelProvider' }), {
        ...{ name: 'my-folder', version: '0.0.0', pluginInterface: 'ModelProvider', metadata: {}, settings: [], warnings: [] },
      })
    })

    it('absent, null or blank means: not a plugin, no error', () => {
      for (const json of [{}, { name: 'x' }, { pluginInterface: null }, { pluginInterface: ' ' }, [], 'text', 3, null, undefined]) {
        assert.deepEqual(parseManifest(json, { directoryName }), { kind: 'notPlugin' })
      }
    })

    it('inherited from a prototype does not count', () => {
      assert.deepEqual(parseManifest(JSON.parse('{"__proto__": {"pluginInterface": "ChannelAdapter"}}'), { directoryName }), {
        kind: 'notPlugin',
      })
    })

    for (const value of ['ChannelAdapter', 'DocumentExtractor', 'ModelProvider', 'EmbeddingProvider', 'VaultBackend']) {
      it(`accepts ${value}`, () => assert.equal(accepted({ ...extractor, pluginInterface: value }).pluginInterface, value))
      it(`accepts the legacy spelling I${value}, with a warning`, () => {
        const manifest = accepted({ ...extractor, pluginInterface: `I${value}` })
        assert.equal(manifest.pluginInterface, value)
        assert.ok(manifest.warnings.some(warning => warning.includes('legacy')))
      })
    }

    it('refuses Tool and ITool, naming the plugin', () => {
      for (const value of ['Tool', 'ITool']) {
        const parsed = parseManifest({ name: 'hammer', pluginInterface: value }, { directoryName })
        assert.equal(parsed.kind, 'rejected')
        assert.equal((parsed as { name: string }).name, 'hammer')
        rejectedFor({ name: 'hammer', pluginInterface: value }, /skills or MCP/)
      }
    })

    it('rejects an unknown value and a wrong type', () => {
      rejectedFor({ ...channel, pluginInterface: 'channeladapter' }, /"channeladapter" is none of ChannelAdapter/)
      rejectedFor({ ...channel, pluginInterface: 7 }, /7 is none of/)
    })
  })

  describe('name', () => {
    it('falls back to the folder when absent, blank or no string', () => {
      assert.equal(accepted({ ...channel, name: undefined }).name, 'my-folder')
      assert.equal(warns({ ...channel, name: '  ', channelType: 'acme' }, /folder's name/).name, 'my-folder')
      assert.equal(warns({ ...channel, name: 42, channelType: 'acme' }, /^name: .*not 42/).name, 'my-folder')
    })

    it('is trimmed', () => assert.equal(accepted({ ...channel, name: ' acme ' }).name, 'acme'))

    it('that cannot be an id rejects the manifest', () => {
      for (const name of [
        'a/b',
        'a\\b',
        '..',
        '.',
        'a\u0000b',
        'a\nb',
        'a\u202eb',
        'a\u200bb',
        '__proto__',
        'x'.repeat(129),
        'é'.repeat(65),
      ]) {
        rejectedFor({ ...channel, name }, /cannot be a plugin's id/)
      }
    })

    it('rejects when the folder it falls back to cannot be an id either', () => {
      assert.equal(parseManifest({ pluginInterface: 'ChannelAdapter' }, { directoryName: '..' }).kind, 'rejected')
    })
  })

  describe('version', () => {
    it('falls back to 0.0.0 when absent', () => assert.equal(accepted({ ...channel, version: undefined }).version, '0.0.0'))
    it('falls back to 0.0.0 with a warning when it is no SemVer', () => {
      for (const version of ['1.0', 'latest', 1, '1.2.3.4', '01.2.3'])
        assert.equal(warns({ ...channel, version }, /^version: .*SemVer/).version, '0.0.0')
    })
    it('may have a pre-release and a build', () =>
      assert.equal(accepted({ ...channel, version: '1.0.0-rc.1+b2' }).version, '1.0.0-rc.1+b2'))
  })

  describe('channelType', () => {
    it('is trimmed and lower-cased', () => assert.equal(accepted({ ...channel, channelType: '  Acme-Chat ' }).channelType, 'acme-chat'))

    it('invalid rejects the whole manifest', () => {
      for (const channelType of ['9lives', 'a', 'with space', 'under_score', '-a', 'x'.repeat(33), '', 5, {}, 'ümlaut']) {
        rejectedFor({ ...channel, channelType }, /channelType: .*does not match \^\[a-z\]\[a-z0-9-\]\{1,31\}\$/)
      }
    })

    it('at the edges of the pattern is accepted', () => {
      for (const channelType of ['ab', 'a'.repeat(32), 'a-', 'a9'])
        assert.equal(accepted({ ...channel, channelType }).channelType, channelType)
    })

    it('omitted is derived from the name', () => {
      assert.equal(accepted(channel).channelType, 'acme')
      assert.equal(warns({ ...channel, name: 'Acme Chat!' }, /"acme-chat" was derived/).channelType, 'acme-chat')
      assert.equal(accepted({ ...channel, name: 'Café' }).channelType, 'cafe')
      assert.equal(accepted({ ...channel, name: '3cx' }).channelType, 'cx')
      assert.match(accepted({ ...channel, name: `a${'-b'.repeat(40)}` }).channelType!, /^[a-z][a-z0-9-]{1,31}$/)
    })

    it('that cannot be derived rejects', () => {
      for (const name of ['x', '42', '日本語', '---']) rejectedFor({ ...channel, name }, /give "channelType"/)
    })

    it('of another interface is ignored with a warning, even when invalid', () => {
      assert.equal(warns({ ...extractor, channelType: '!!' }, /channelType: is for a ChannelAdapter only/).channelType, undefined)
    })
  })

  describe('supportedExtensions', () => {
    it('get a leading dot and lower case, none twice', () => {
      assert.deepEqual(accepted({ ...extractor, supportedExtensions: ['SRT', '.srt', ' .Vtt ', 'tar.gz'] }).supportedExtensions, [
        '.srt',
        '.vtt',
        '.tar.gz',
      ])
    })

    it('absent or empty: an extractor is rejected, saying so', () => {
      for (const supportedExtensions of [undefined, [], null, 'srt', ['', 3, '../x', '*']]) {
        rejectedFor({ ...extractor, supportedExtensions }, /declares no file extension/)
      }
    })

    it('that are malformed are skipped one by one', () => {
      assert.deepEqual(warns({ ...extractor, supportedExtensions: ['.srt', 7, 'a/b'] }, /\[1\]/, /\[2\]/).supportedExtensions, ['.srt'])
    })

    it('of another interface are ignored with a warning', () => {
      assert.equal(warns({ ...channel, supportedExtensions: ['.srt'] }, /DocumentExtractor only/).supportedExtensions, undefined)
    })
  })

  describe('recipientMetadataKey', () => {
    it('is chatId when absent', () => assert.equal(accepted(channel).recipientMetadataKey, 'chatId'))
    it('is taken as given', () => assert.equal(accepted({ ...channel, recipientMetadataKey: 'roomId' }).recipientMetadataKey, 'roomId'))
    it('is chatId with a warning when it cannot be a key', () => {
      for (const recipientMetadataKey of ['', 5, '__proto__']) {
        assert.equal(warns({ ...channel, recipientMetadataKey }, /recipientMetadataKey/).recipientMetadataKey, 'chatId')
      }
    })
    it('does not stand on an extractor', () => assert.equal(accepted(extractor).recipientMetadataKey, undefined))
  })

  it('keeps metadata verbatim', () => {
    const metadata = { icon: '★', nested: { list: [1, null, { deep: true }] }, Empty: '' }
    assert.deepEqual(accepted({ ...channel, metadata }).metadata, metadata)
    assert.deepEqual(warns({ ...channel, metadata: [1] }, /metadata: must be an object/).metadata, {})
  })

  it('keeps providerType of a model provider only', () => {
    assert.equal(accepted({ name: 'm', pluginInterface: 'ModelProvider', providerType: 'openai' }).providerType, 'openai')
    assert.equal(warns({ ...channel, providerType: 'openai' }, /ModelProvider only/).providerType, undefined)
  })

  it('never fails for unknown fields', () => assert.deepEqual(accepted({ ...channel, $schema: 'x', future: { a: 1 } }).warnings, []))

  it('leaves out descriptive fields of a wrong type, with warnings', () => {
    const manifest = warns({ ...channel, description: 5, author: { name: 'x' }, type: 'tool' }, /type/, /description/, /author/)
    assert.equal(manifest.description, undefined)
  })

  describe('settings', () => {
    const settings = (...entries: unknown[]): unknown => ({ ...channel, settings: entries })

    it('have defaults for all but the name', () => {
      assert.deepEqual(accepted(settings({ name: 'server' })).settings, [
        { name: 'server', type: 'string', displayName: 'server', required: false },
      ])
    })

    it('are taken whole', () => {
      const full = { name: 'botToken', type: 'secret', displayName: 'Bot token', required: true }
      assert.deepEqual(accepted(settings(full)).settings, [full])
      const filled = { name: 'server', type: 'string', displayName: 'Server', required: false, default: 'https://x' }
      assert.deepEqual(accepted(settings(filled)).settings, [filled])
    })

    it('accept key as a legacy alias of name, which wins', () => {
      assert.equal(accepted(settings({ key: 'server' })).settings[0]!.name, 'server')
      assert.equal(accepted(settings({ name: 'host', key: 'server' })).settings[0]!.name, 'host')
    })

    it('coerce any other type to string with a warning', () => {
      for (const type of ['number', 'boolean', 'Secret', 5, {}]) {
        assert.equal(warns(settings({ name: 'limit', type }), /settings\[0\]\.type: .*taken as "string"/).settings[0]!.type, 'string')
      }
    })

    it('that are malformed are skipped with a warning, the manifest stands', () => {
      for (const entry of [
        null,
        5,
        'name',
        [],
        {},
        { name: '' },
        { name: 7 },
        { displayName: 'x' },
        { name: '__proto__' },
        { name: 'a\u0007' },
      ]) {
        assert.deepEqual(
          warns(settings(entry, { name: 'server' }), /settings\[0\].*skipped/).settings.map(({ name }) => name),
          ['server'],
        )
      }
    })

    it('that are no array are ignored with a warning', () => {
      assert.deepEqual(warns({ ...channel, settings: { name: 'x' } }, /settings: must be an array/).settings, [])
    })

    it('of the same name: the first stays', () => {
      const manifest = warns(
        settings({ name: 'server', displayName: 'A' }, { name: 'server', displayName: 'B' }),
        /settings\[1\].*already stands/,
      )
      assert.deepEqual(
        manifest.settings.map(({ displayName }) => displayName),
        ['A'],
      )
    })

    it('take a default that is no string as its text, with a warning', () => {
      assert.equal(warns(settings({ name: 'port', default: 8080 }), /taken as "8080"/).settings[0]!.default, '8080')
      assert.equal(warns(settings({ name: 'port', default: {} }), /ignored/).settings[0]!.default, undefined)
    })

    it('warn of a default on a secret and of a secret name on a string', () => {
      warns(settings({ name: 'botToken', type: 'secret', default: 'abc' }), /must not hold a secret/)
      warns(settings({ name: 'botToken' }), /sounds like a secret/)
    })

    it('take required only as true or false', () => {
      assert.equal(warns(settings({ name: 'server', required: 'yes' }), /required/).settings[0]!.required, false)
    })

    it('are at most a hundred', () => {
      const many = Array.from({ length: 150 }, (_, index) => ({ name: `s${index}` }))
      assert.equal(warns(settings(...many), /only the first 100/).settings.length, 100)
    })
  })

  describe('permissions', () => {
    it('are optional', () => assert.equal(accepted(channel).permissions, undefined))
    it('name hosts and the data directory', () => {
      const permissions = { net: ['api.example.com:443', 'Example.org', '[::1]:80'], dataDirectoryMb: 20 }
      assert.deepEqual(accepted({ ...channel, permissions }).permissions, {
        net: ['api.example.com:443', 'example.org', '[::1]:80'],
        dataDirectoryMb: 20,
      })
    })
    it('that cannot be read mean no network', () => {
      assert.deepEqual(warns({ ...channel, permissions: 'all' }, /permissions/).permissions, { net: [] })
      assert.deepEqual(warns({ ...channel, permissions: { net: '*' } }, /net/).permissions, { net: [] })
      assert.deepEqual(
        warns({ ...channel, permissions: { net: ['a b', 'x:0', 'y:70000', 'https://z'] } }, /0/, /1/, /2/, /3/).permissions,
        { net: [] },
      )
    })
  })

  it('says at most fifty things', () => {
    const manifest = accepted({ ...extractor, supportedExtensions: ['.srt', ...Array.from({ length: 500 }, () => 5)] })
    assert.equal(manifest.warnings.length, 50)
    assert.match(manifest.warnings[49]!, /451 more warnings/)
  })
})
