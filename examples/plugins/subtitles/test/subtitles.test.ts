import { startPlugin, testConformance, type RunningPlugin } from '@agent-gateway/sdk/testing'
import assert from 'node:assert/strict'
import { cp, mkdtemp, realpath, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('..', import.meta.url))

describe('the subtitles example', () => {
  let plugin: RunningPlugin
  const read = (name: string, content: string | Uint8Array): Promise<{ text: string; title?: string }> => plugin.extract({ name, content })
  const textOf = async (name: string, content: string | Uint8Array): Promise<string> => (await read(name, content)).text

  before(async () => {
    plugin = await startPlugin(folder)
  })
  after(() => plugin.stop())

  it('reads SubRip with its times, without tags and positions', async () => {
    const srt =
      '1\n00:00:01,500 --> 00:00:03,000\n{\\an8}<i>Hello,</i>\n<font color="red">is anybody there?</font>\n\n2\n01:02:03,000 --> 01:02:04,000\nYes &amp; no: 1 < 2\n'
    assert.deepEqual(await read('film.srt', srt), {
      text: '[00:00:01] Hello, is anybody there?\n[01:02:03] Yes & no: 1 < 2',
      title: 'film',
      byFile: false,
    })
  })

  it('reads WebVTT with a title, notes, styles, names, settings and times without hours', async () => {
    const vtt = [
      ...['WEBVTT - The first talk', 'Kind: captions', '', 'NOTE a remark', '00:01.000 --> 00:02.000', 'not spoken', ''],
      ...[
        'STYLE',
        '::cue { color: red }',
        '',
        'opening',
        '00:01.000 --> 00:04.000 align:start position:0%',
        '<v.loud Ada Lovelace>Good <c.x>morning</c></v>',
      ],
      ...['<v Charles>Morning&nbsp;Ada &#x1F600;</v>', '', '01:00:00.000 --> 01:00:01.000', '<00:00:01.500>late <b>words</b>', ''],
    ].join('\r\n')
    assert.deepEqual(await read('talk.vtt', vtt), {
      text: '[00:00:01] Ada Lovelace: Good morning\nCharles: Morning Ada 😀\n[01:00:00] late words',
      title: 'The first talk',
      byFile: false,
    })
  })

  const cue = '1\n00:00:01,000 --> 00:00:02,000\nGrüße, señor\n'
  for (const [encoding, bytes] of [
    ['UTF-8', Buffer.from(cue)],
    ['UTF-8 with a mark', Buffer.from(`\ufeff${cue}`)],
    ['UTF-16 with a mark', Buffer.from(`\ufeff${cue}`, 'utf16le')],
    ['Latin-1', Buffer.from(cue, 'latin1')],
  ] as const) {
    it(`reads ${encoding}`, async () => assert.equal(await textOf('a.srt', bytes), '[00:00:01] Grüße, señor'))
  }

  it('says a rolling caption once', async () => {
    const vtt = 'WEBVTT\n\n00:01.000 --> 00:02.000\nsame\n\n00:02.000 --> 00:03.000\nsame\n\n00:03.000 --> 00:04.000\nother\n'
    assert.equal(await textOf('a.vtt', vtt), '[00:00:01] same\n[00:00:03] other')
  })

  it('copes with cues that no blank line parts, and old Mac line ends', async () => {
    assert.equal(
      await textOf('a.srt', '1\r00:00:01,000 --> 00:00:02,000\rone\r2\r00:00:02,000 --> 00:00:03,000\rtwo'),
      '[00:00:01] one\n[00:00:02] two',
    )
  })

  it('leaves out what has no times, and says where', async () => {
    assert.equal(await textOf('a.srt', `garbage\nmore\n\n${cue}\n3\n00:99:99 -> nonsense\nlost\n`), '[00:00:01] Grüße, señor')
    const line = plugin.logs.at(-1)
    assert.deepEqual([line?.message, line?.fields], ['a.srt: 2 blocks without times were left out', { lines: '1, 8' }])
  })

  it('refuses for good a file without a single cue, naming the lines', async () => {
    await assert.rejects(textOf('a.srt', 'just\n\ntext\n'), {
      retryable: false,
      message: 'a.srt holds no subtitles that can be read: no times at line 1, 3',
    })
    await assert.rejects(textOf('a.vtt', 'WEBVTT\n\n'), /a\.vtt holds no subtitles$/)
    await assert.rejects(textOf('a.srt', ''), /holds no subtitles/)
  })

  it('reads a hundred thousand cues', async () => {
    const many = Array.from({ length: 100_000 }, (_, index) => `${index}\n00:00:01,000 --> 00:00:02,000\nline ${index}\n`).join('\n')
    const { text, byFile } = await plugin.extract({ name: 'long.srt', content: many })
    assert.deepEqual([text.split('\n').length, byFile], [100_000, true])
  })

  it("runs from a copy of its folder, alone, under Node's permission flag", async () => {
    const temporary = await realpath(await mkdtemp(join(tmpdir(), 'subtitles-')))
    const copy = join(temporary, 'subtitles')
    await cp(folder, copy, { recursive: true })
    const confined = await startPlugin(copy, {
      dataDir: join(temporary, 'data'),
      nodeArgs: ['--experimental-permission', `--allow-fs-read=${copy}`, `--allow-fs-write=${join(temporary, 'data')}`],
    })
    assert.deepEqual(await confined.peer.request('plugin.ping', {}), {})
    // Its documents lie outside of what this launch allows.
    await assert.rejects(confined.extract({ name: 'a.srt', content: cue }), /Access to this API has been restricted/)
    assert.deepEqual(await confined.stop(), { code: 0, signal: null })
    await rm(temporary, { recursive: true })
  })

  it('passes every check of the conformance kit', async () => {
    const { checks } = await testConformance(folder, { sample: join(folder, 'test/sample.srt') })
    assert.deepEqual(
      checks.filter(({ outcome }) => outcome !== 'pass'),
      [],
    )
  })
})
