import { startPlugin, testConformance, type RunningPlugin } from '@agent-gateway/sdk/testing'
import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('..', import.meta.url))
const hasPython = spawnSync('python3', ['--version']).status === 0
const calendar = (...lines: string[]): string => ['BEGIN:VCALENDAR', 'VERSION:2.0', ...lines, 'END:VCALENDAR', ''].join('\r\n')
const event = (...lines: string[]): string => calendar('BEGIN:VEVENT', 'UID:1', ...lines, 'END:VEVENT')

;(hasPython ? describe : describe.skip)('the calendar example (needs python3)', () => {
  let plugin: RunningPlugin
  const textOf = async (content: string | Uint8Array, name = 'plan.ics'): Promise<string> => (await plugin.extract({ name, content })).text

  before(async () => {
    plugin = await startPlugin(folder)
  })
  after(async () => {
    assert.deepEqual(await plugin.stop(), { code: 0, signal: null })
  })

  it('describes events with times, rules, places and people', async () => {
    const text = calendar(
      ...[
        'X-WR-CALNAME:The house\\, 2026',
        'BEGIN:VTIMEZONE',
        'TZID:Europe/Berlin',
        'BEGIN:STANDARD',
        'DTSTART:19701025T030000',
        'END:STANDARD',
        'END:VTIMEZONE',
      ],
      ...['BEGIN:VEVENT', 'SUMMARY:Review', 'DTSTART;TZID=Europe/Berlin:20261123T093000', 'DTEND;TZID="Europe/Berlin":20261123T100015'],
      ...[
        'RRULE:FREQ=WEEKLY;BYDAY=MO;UNTIL=20270101T000000Z',
        'EXDATE;VALUE=DATE:20261130,20261207',
        'LOCATION:Room 5\\; left',
        'STATUS:CONFIRMED',
      ],
      ...[
        'ORGANIZER;CN="Ada; Countess":mailto:ada@example.com',
        'ATTENDEE;CN=Charles;PARTSTAT=ACCEPTED:MAILTO:charles@example.com',
        'ATTENDEE:mailto:x@example.com',
      ],
      ...[
        'DESCRIPTION:Bring:\\n- drawings\\n- C:\\\\plans',
        'BEGIN:VALARM',
        'DESCRIPTION:not this',
        'TRIGGER:-PT15M',
        'END:VALARM',
        'END:VEVENT',
      ],
    )
    assert.deepEqual(await plugin.extract({ name: 'plan.ics', content: text }), {
      title: 'The house, 2026',
      text: [
        ...['Event: Review', 'Starts: 2026-11-23 09:30 (Europe/Berlin)', 'Ends: 2026-11-23 10:00:15 (Europe/Berlin)'],
        ...[
          'Repeats: FREQ=WEEKLY;BYDAY=MO;UNTIL=20270101T000000Z',
          'Except on: 2026-11-30, 2026-12-07',
          'Where: Room 5; left',
          'Status: CONFIRMED',
        ],
        ...['Organizer: Ada; Countess <ada@example.com>', 'With: Charles <charles@example.com> (accepted), x@example.com'],
        ...['Bring:', '- drawings', '- C:\\plans', ''],
      ].join('\n'),
      byFile: false,
    })
  })

  it('shows UTC, floating and whole-day times, durations and periods', async () => {
    assert.equal(
      await textOf(event('SUMMARY:a', 'DTSTART:20261123T093000Z', 'DURATION:PT1H')),
      'Event: a\nStarts: 2026-11-23 09:30 UTC\nLasts: PT1H\n',
    )
    assert.equal(await textOf(event('SUMMARY:a', 'DTSTART:20261123T093000')), 'Event: a\nStarts: 2026-11-23 09:30\n')
    assert.equal(await textOf(event('SUMMARY:a', 'DTSTART;VALUE=DATE:20261123')), 'Event: a\nStarts: 2026-11-23\n')
    assert.match(await textOf(event('SUMMARY:a', 'RDATE;VALUE=PERIOD:20261123T090000Z/PT1H')), /Also on: 2026-11-23 09:00 UTC to PT1H/)
    assert.match(await textOf(event('SUMMARY:a', 'DTSTART:next week')), /Starts: next week/)
  })

  it('describes tasks and journal entries, and takes the file name for a title', async () => {
    const text = calendar(
      'BEGIN:VTODO',
      'SUMMARY:Paint',
      'DUE;VALUE=DATE:20261201',
      'PERCENT-COMPLETE:50',
      'END:VTODO',
      'BEGIN:VJOURNAL',
      'DESCRIPTION:Rain.',
      'END:VJOURNAL',
    )
    assert.deepEqual(await plugin.extract({ name: 'work.ics', content: text }), {
      title: 'work',
      text: 'Task: Paint\nDue: 2026-12-01\nPercent done: 50\n\nJournal entry: (without a title)\nRain.\n',
      byFile: false,
    })
  })

  it('unfolds lines, also where a fold cuts a character', async () => {
    const bytes = Buffer.from(event('SUMMARY:Grüße aus Köln'))
    const at = bytes.indexOf(Buffer.from('ü')) + 1
    const folded = Buffer.concat([bytes.subarray(0, at), Buffer.from('\r\n '), bytes.subarray(at)])
    assert.equal(await textOf(folded), 'Event: Grüße aus Köln\n')
    assert.equal(await textOf(event('SUMMARY:one', '\ttwo').replaceAll('\r\n', '\n')), 'Event: onetwo\n')
  })

  it('reads Latin-1, and UTF-8 with a mark', async () => {
    assert.equal(await textOf(Buffer.from(event('SUMMARY:Grüße'), 'latin1')), 'Event: Grüße\n')
    assert.equal(await textOf(`\ufeff${event('SUMMARY:Grüße')}`), 'Event: Grüße\n')
  })

  it('leaves out what it cannot read, keeps what was not ended, and counts in the log', async () => {
    const text = calendar('garbage', 'BEGIN:VEVENT', 'SUMMARY:one', ';;;', 'BEGIN:VEVENT', 'SUMMARY:two', 'END:VTODO')
    assert.equal(await textOf(text), 'Event: one\n\nEvent: two\n')
    assert.match(plugin.logs.at(-1)?.message ?? '', /plan\.ics: \d lines could not be read/)
  })

  it('says so when there is nothing in it', async () => assert.equal(await textOf(calendar()), 'This calendar has no entries.\n'))

  it('refuses for good what is no calendar', async () => {
    for (const content of ['', 'text', 'BEGIN:VCARD\r\nEND:VCARD\r\n', Buffer.from([0, 255, 10, 0])]) {
      await assert.rejects(textOf(content), { retryable: false, message: /^plan\.ics is no calendar/ })
    }
    await assert.rejects(textOf(calendar(...Array.from({ length: 40 }, () => 'BEGIN:X'))), /nested deeper/)
  })

  it('reads 100,000 events, by file, and answers pings meanwhile', async () => {
    const events = Array.from(
      { length: 100_000 },
      (_, index) => `BEGIN:VEVENT\r\nSUMMARY:Event ${index}\r\nDTSTART:20261123T093000Z\r\nEND:VEVENT`,
    )
    const reading = plugin.extract({ name: 'big.ics', content: calendar(events.join('\r\n')) })
    assert.deepEqual(await plugin.peer.request('plugin.ping', {}), {})
    const { text, byFile } = await reading
    assert.deepEqual([text.match(/^Event: /gm)?.length, byFile], [100_000, true])
  })

  it('skips a large attachment', async () => {
    const text = await textOf(event('SUMMARY:a', `ATTACH;ENCODING=BASE64;VALUE=BINARY:${'QUJD'.repeat(2_000_000)}`, 'LOCATION:here'))
    assert.equal(text, 'Event: a\nWhere: here\n')
  })

  it('drops a call that is given up', async () => {
    const events = Array.from({ length: 200_000 }, (_, index) => `BEGIN:VEVENT\r\nSUMMARY:Event ${index}\r\nEND:VEVENT`)
    const controller = new AbortController()
    const reading = plugin.extract({ name: 'big.ics', content: calendar(events.join('\r\n')) }, { signal: controller.signal })
    const given = assert.rejects(reading, /cancelled/)
    while (plugin.peer.stats.pending === 0) await new Promise(resolve => setImmediate(resolve))
    controller.abort()
    await given
    assert.equal(await textOf(event('SUMMARY:after')), 'Event: after\n')
    assert.equal(plugin.peer.stats.lateReplies, 0)
  })

  it('refuses unknown methods, bad parameters and a second handshake', async () => {
    await assert.rejects(plugin.connect(), /no method 'channel\.connect'/)
    await assert.rejects(plugin.peer.request('extractor.extract', { path: 5 } as never), /path must be a string/)
    const params = { protocolVersions: ['2026-11-01'], plugin: { id: 'x', version: '1' }, host: { name: 'x', version: '1' }, dataDir: '/' }
    await assert.rejects(plugin.peer.request('plugin.initialize', params), /came twice/)
  })

  it('names both sides when no protocol version is common', async () => {
    await assert.rejects(startPlugin(folder, { protocolVersions: ['2999-01-01'] }), /No common protocol version/)
  })

  it('ends when its stdin does', async () => {
    const other = await startPlugin(folder)
    other.endInput()
    assert.deepEqual(await other.exited, { code: 0, signal: null })
  })

  it('writes nothing into its own folder', () => {
    assert.ok(!readdirSync(folder).includes('__pycache__'))
  })

  it('passes every check of the conformance kit', async () => {
    const { checks } = await testConformance(folder, { sample: join(folder, 'test/sample.ics') })
    assert.deepEqual(
      checks.filter(({ outcome }) => outcome !== 'pass'),
      [],
    )
  })
})
