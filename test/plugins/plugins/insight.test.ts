import assert from 'node:assert/strict'
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { registerSecret } from '../../../core/redaction.js'
import { addPlugin } from '../../host/support.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'

interface Line {
  seq: number
  level: string
  source: string
  text: string
}

describe('insight into plugins', () => {
  const settings = { 'Service:Plugins:Enabled': 'true', 'Service:Http:DrainSeconds': '600' }
  let gateway: TestGateway
  let token: string
  let user: string

  before(async () => {
    const dataDir = await mkdtemp(join(tmpdir(), 'gateway-test-'))
    await mkdir(join(dataDir, 'plugins'), { recursive: true })
    gateway = await startGateway({ dataDir, settings })
    token = await login(gateway)
    const other = { email: 'user@example.com', password: 'another long password' }
    await gateway.call('POST', '/admin/users', { token, body: { ...other, name: 'User', roles: ['User'] } })
    user = await login(gateway, other)
    await addPlugin(join(dataDir, 'plugins', 'chatty'), 'chatty', 'stdout-noise')
    await until('chatty', 'ready')
  })
  after(() => gateway.stop())

  const until = (id: string, state: string) =>
    waitFor(`${id} to be ${state}`, async () => (await gateway.call('GET', `/plugins/${id}`, { token })).body.state === state)
  const lines = async (query = ''): Promise<Line[]> =>
    (await gateway.call('GET', `/plugins/chatty/logs${query}`, { token })).body.lines as Line[]

  /** Reads a live log until `isDone`, or until it ends. */
  const follow = async (headers: Record<string, string>, isDone: (text: string) => boolean): Promise<{ text: string; ended: boolean }> => {
    const gone = new AbortController()
    const response = await fetch(`${gateway.url}/api/plugins/chatty/logs`, {
      headers: { Authorization: `Bearer ${token}`, Accept: 'text/event-stream', ...headers },
      signal: gone.signal,
    })
    assert.equal(response.headers.get('Content-Type'), 'text/event-stream; charset=utf-8')
    assert.equal(response.headers.get('Content-Encoding'), null)
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader()
    let text = ''
    while (!isDone(text)) {
      const { value, done } = await reader.read()
      if (done) return { text, ended: true }
      text += value
    }
    gone.abort()
    return { text, ended: false }
  }

  it('the log has the output of the process and what happened to it, in order', async () => {
    const all = await lines()
    assert.ok(all.some(({ source, text }) => source === 'output' && text.includes('stray console.log')))
    assert.ok(all.some(({ source, text }) => source === 'gateway' && text === 'ready'))
    assert.deepEqual(
      all.map(({ seq }) => seq),
      all.map((_, index) => all[0]!.seq + index),
    )
    assert.deepEqual(await lines('?limit=1'), all.slice(-1))
    assert.deepEqual(await lines(`?after=${all[0]!.seq}`), all.slice(1))
    assert.deepEqual(await lines(`?after=${all.at(-1)!.seq}`), [])
  })

  it('the log is for administrators, of plugins that there are, by numbers', async () => {
    assert.equal((await gateway.call('GET', '/plugins/chatty/logs', { token: user })).status, 403)
    assert.equal((await gateway.call('GET', '/plugins/chatty/logs')).status, 401)
    assert.equal((await gateway.call('GET', '/plugins/nobody/logs', { token })).status, 404)
    for (const query of ['limit=0', 'limit=1001', 'limit=x', 'after=-1'])
      assert.equal((await gateway.call('GET', `/plugins/chatty/logs?${query}`, { token })).status, 400, query)
  })

  it('the log comes live, from where the client left off', async () => {
    const before = await lines()
    const live = follow({ 'Last-Event-ID': String(before.at(-2)!.seq) }, text => text.includes('"ready"') && text.includes('"starting'))
    await gateway.call('POST', '/plugins/chatty/restart', { token })
    const { text } = await live
    assert.match(text, new RegExp(`^id: ?${before.at(-1)!.seq}$`, 'm'))
    assert.doesNotMatch(text, new RegExp(`^id: ?${before.at(-2)!.seq}$`, 'm'))
  })

  it('the log goes on after a restart of the gateway: a client that comes back gets every line that it does not know', async () => {
    const before = await lines()
    await gateway.stop({ keep: true })
    gateway = await startGateway({ dataDir: gateway.dataDir, settings })
    token = await login(gateway)
    await until('chatty', 'ready')
    const { seq } = before.at(-1)!
    const all = await lines()
    assert.ok(all[0]!.seq > seq)
    assert.deepEqual(await lines(`?after=${seq}`), all)
    const { text } = await follow({ 'Last-Event-ID': String(seq) }, live => live.includes(String(all.at(-1)!.seq)))
    assert.match(text, new RegExp(`^id: ?${all[0]!.seq}$`, 'm'))
    assert.deepEqual(await lines(`?after=${all.at(-1)!.seq + 1_000_000_000}`), all, 'one from a clock that was ahead')
    assert.deepEqual(await lines('?after=3'), all, 'one of an older gateway')
  })

  it('the log shows no secret', async () => {
    const undo = registerSecret('hunter2-hunter2')
    await addPlugin(join(gateway.dataDir, 'plugins', 'leaky'), 'leaky', 'exit-before-handshake')
    await writeFile(
      join(gateway.dataDir, 'plugins', 'leaky', 'leaky.mjs'),
      [
        `const secret = 'hunter2-hunter2'`,
        // Across each place where a long line is cut.
        `for (const length of [1000, 1010, 1015, 1024, 1990, 1995, 1999]) {`,
        `  process.stderr.write('x'.repeat(length) + secret + 'x'.repeat(3000) + '\\n')`,
        `  process.stdout.write('x'.repeat(length) + secret + 'x'.repeat(3000) + '\\n')`,
        `}`,
        `process.stderr.write('x'.repeat(1995) + secret.slice(0, 8))`,
        `setTimeout(() => {`,
        `  process.stderr.write(secret.slice(8) + '\\n')`,
        `  console.error('the password is ' + secret)`,
        `  process.exit(3)`,
        `}, 50)`,
      ].join('\n'),
    )
    const { text } = await waitFor('its words', async () => {
      const answer = await gateway.call('GET', '/plugins/leaky/logs', { token })
      return answer.text.includes('the password is') ? answer : undefined
    })
    undo()
    assert.ok(text.includes('[stdout] xxx'), text)
    assert.ok(!text.includes('xhu') && !text.includes('hunter'), text)
    assert.ok(!gateway.logged().includes('xhu'))
    assert.ok(!(await gateway.call('GET', '/plugins/leaky/logs', { token })).text.includes('hunter2'))
  })

  it('metrics are for operators, in the format of Prometheus', async () => {
    assert.equal((await gateway.call('GET', '/ops/metrics', { token: user })).status, 403)
    const { text, headers } = await gateway.call('GET', '/ops/metrics', { token })
    assert.match(headers.get('Content-Type') ?? '', /^text\/plain; version=0\.0\.4/)
    assert.match(text, /^# TYPE gateway_plugin_calls_total counter$/m)
    assert.match(text, /^gateway_plugin_up\{plugin="chatty"\} 1$/m)
    assert.match(text, /^gateway_plugin_state\{plugin="chatty",state="ready"\} 1$/m)
    assert.match(text, /^gateway_plugin_restarts_total\{plugin="chatty"\} \d+$/m)
    assert.match(text, /^gateway_process_resident_memory_bytes \d+$/m)
    assert.ok(!text.includes('undefined') && !text.includes('NaN}'))
  })

  it('metrics count calls, failures and their durations', async () => {
    const upload = async (name: string): Promise<void> => {
      const form = new FormData()
      form.set('file', new Blob(['some text']), name)
      assert.equal((await gateway.call('POST', '/documents/upload', { token, body: form })).status, 201)
    }
    await addPlugin(join(gateway.dataDir, 'plugins', 'reader'), 'reader', 'behave', { supportedExtensions: ['.odd'] })
    await until('reader', 'ready')
    await upload('one.odd')
    const text = await waitFor('the call to be counted', async () => {
      const answer = await gateway.call('GET', '/ops/metrics', { token })
      return /^gateway_plugin_calls_total\{plugin="reader"\} 1$/m.test(answer.text) ? answer.text : undefined
    })
    assert.match(text, /^gateway_plugin_call_errors_total\{plugin="reader"\} 0$/m)
    assert.match(text, /^gateway_plugin_call_duration_seconds_bucket\{plugin="reader",le="30"\} 1$/m)
    assert.match(text, /^gateway_plugin_call_duration_seconds_bucket\{plugin="reader",le="\+Inf"\} 1$/m)
    assert.match(text, /^gateway_plugin_call_duration_seconds_count\{plugin="reader"\} 1$/m)
  })

  it('the record of a plugin has its numbers, and those of a crash', async () => {
    const record = async () => (await gateway.call('GET', '/plugins/reader', { token })).body
    const { pid, uptimeMs, restarts, calls, errors, latencyMs, version, sandbox } = await record()
    assert.deepEqual([version, restarts, calls, errors], ['1.0.0', 0, 1, 0])
    assert.ok(uptimeMs > 0 && latencyMs.p50 > 0 && latencyMs.p95 >= latencyMs.p50 && typeof sandbox.tier === 'string')
    // Looked at every few seconds.
    await waitFor('its memory', async () => (await record()).residentBytes > 1024 * 1024)
    process.kill(pid, 'SIGKILL')
    const after = await waitFor('a restart', async () => {
      const now = await record()
      return now.restarts === 1 && now.state === 'ready' ? now : undefined
    })
    assert.notEqual(after.pid, pid)
    assert.match(after.lastError, /it ended by itself \(SIGKILL\)/)
  })

  it('a live log ends when the gateway stops, and does not hold it up', async () => {
    const live = follow({}, () => false)
    await waitFor('the stream', async () => (await gateway.call('GET', '/health')).status === 200)
    await gateway.stop()
    assert.equal((await live).ended, true)
  })
})
