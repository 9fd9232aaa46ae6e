import { startPlugin, testConformance, type RunningPlugin, type TestChannel } from '@agent-gateway/sdk/testing'
import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { once } from 'node:events'
import { cp, mkdtemp, realpath, rm } from 'node:fs/promises'
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'

const folder = fileURLToPath(new URL('..', import.meta.url))
const secret = 'a shared secret of some length'
const receivedAt = '2026-11-21T09:00:00.000Z'
const timestamp = String(Date.parse(receivedAt) / 1000)
const message = { id: 'm1', chatId: '42', from: { id: 'u1', name: 'Ada' }, text: 'Hellö' }

/** As the README describes it, and not by the plugin's own code. */
const signature = (time: string, body: string | Buffer, key = secret): string =>
  `sha256=${createHmac('sha256', key)
    .update(Buffer.concat([Buffer.from(`${time}.`), Buffer.from(body)]))
    .digest('hex')}`

const signed = (body: string | Buffer, time = timestamp): Record<string, string> => ({
  'X-Timestamp': time,
  'X-Signature': signature(time, body),
})

interface Posted {
  headers: IncomingHttpHeaders
  body: string
}

describe('the http-channel example', () => {
  let plugin: RunningPlugin
  let channel: TestChannel
  let server: Server
  let callbackUrl: string
  let posted: Posted[]
  /** What the callback answers next; then 200. */
  let answers: { status: number; headers?: Record<string, string>; body?: string }[]

  before(async () => {
    server = createServer((request, response) => {
      void request.toArray().then((chunks: Buffer[]) => {
        posted.push({ headers: request.headers, body: Buffer.concat(chunks).toString() })
        const { status, headers = {}, body = '' } = answers.shift() ?? { status: 200 }
        response.writeHead(status, headers).end(body)
      })
    }).listen(0, '127.0.0.1')
    await once(server, 'listening')
    callbackUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/replies?x=1`
    plugin = await startPlugin(folder)
  })
  beforeEach(async () => {
    posted = []
    answers = []
    channel = await plugin.connect({ settings: { secret, callbackUrl } })
  })
  after(async () => {
    await plugin.stop()
    server.close()
    server.closeAllConnections()
  })

  describe('in', () => {
    it('takes a signed message', async () => {
      const body = JSON.stringify({ ...message, sentAt: '2026-11-21T10:00:00+01:00', more: 1 })
      const { response } = await channel.webhook({ body, headers: signed(body), receivedAt })
      assert.deepEqual([response?.status, response?.body], [202, '{"accepted":"m1"}'])
      assert.deepEqual(channel.messages, [
        { id: 'm1', text: 'Hellö', sender: { id: 'u1', name: 'Ada' }, metadata: { chatId: '42' }, sentAt: '2026-11-21T09:00:00.000Z' },
      ])
    })

    it('checks the exact bytes, also where they are no UTF-8', async () => {
      const body = Buffer.concat([Buffer.from(JSON.stringify(message)), Buffer.from([0x20, 0xff])])
      const { response } = await channel.webhook({ body, headers: signed(body), receivedAt })
      assert.equal(response?.status, 400)
      const spaced = `${JSON.stringify(message)} `
      assert.equal((await channel.webhook({ body: spaced, headers: signed(JSON.stringify(message)), receivedAt })).response?.status, 401)
    })

    const body = JSON.stringify(message)
    const distrusted: [string, Record<string, string>][] = [
      ['no headers', {}],
      ['no timestamp', { 'X-Signature': signature(timestamp, body) }],
      ['a signature by another secret', { 'X-Timestamp': timestamp, 'X-Signature': signature(timestamp, body, 'other') }],
      ['a signature of another length', { 'X-Timestamp': timestamp, 'X-Signature': 'sha256=ab' }],
      ['a signature of another time', { 'X-Timestamp': String(Number(timestamp) + 1), 'X-Signature': signature(timestamp, body) }],
      ['a time that is no number', signed(body, 'yesterday')],
      ['a time too long ago', signed(body, String(Number(timestamp) - 301))],
      ['a time too far ahead', signed(body, String(Number(timestamp) + 301))],
    ]
    for (const [what, headers] of distrusted) {
      it(`refuses ${what} with 401`, async () => {
        const result = await channel.webhook({ body, headers, receivedAt })
        assert.deepEqual([result.response?.status, result.messages], [401, undefined])
      })
    }

    it('trusts a time at the edge of the tolerance, which is a setting', async () => {
      const headers = signed(body, String(Number(timestamp) - 300))
      assert.equal((await channel.webhook({ body, headers, receivedAt })).response?.status, 202)
      const strict = await plugin.connect({ settings: { secret, callbackUrl, toleranceSeconds: '10' } })
      assert.equal((await strict.webhook({ body, headers, receivedAt })).response?.status, 401)
    })

    const bad: [string, unknown, RegExp][] = [
      ['no JSON', '{"id": ', /not valid JSON/],
      ['null', 'null', /id must be/],
      ['an array', '[]', /id must be/],
      ['an id that is a number', { ...message, id: 5 }, /id must be/],
      ['an id that is too long', { ...message, id: 'x'.repeat(257) }, /id must be/],
      ['no chatId', { ...message, chatId: undefined }, /chatId must be/],
      ['no sender', { ...message, from: 'Ada' }, /from\.id must be/],
      ['a blank text', { ...message, text: ' ' }, /text must be/],
      ['a time that is none', { ...message, sentAt: 'soon' }, /sentAt must be/],
    ]
    for (const [what, content, reason] of bad) {
      it(`refuses ${what} with 400 and says why`, async () => {
        const text = typeof content === 'string' ? content : JSON.stringify(content)
        const { response, messages } = await channel.webhook({ body: text, headers: signed(text), receivedAt })
        assert.deepEqual([response?.status, messages], [400, undefined])
        assert.match(response?.body ?? '', reason)
      })
    }

    it('answers a challenge as text, and nothing that could be markup', async () => {
      const { response } = await channel.webhook({ method: 'GET', query: { challenge: 'a1._~-' } })
      assert.deepEqual(
        [response?.status, response?.body, response?.headers?.['content-type']],
        [200, 'a1._~-', 'text/plain; charset=utf-8'],
      )
      for (const query of [{}, { challenge: '' }, { challenge: '<script>' }, { challenge: 'x'.repeat(257) }] as Record<string, string>[]) {
        assert.equal((await channel.webhook({ method: 'GET', query })).response?.status, 400)
      }
    })

    it('refuses other methods with 405', async () => {
      assert.equal((await channel.webhook({ method: 'DELETE', body, headers: signed(body), receivedAt })).response?.status, 405)
    })
  })

  describe('out', () => {
    it("posts a signed reply with an idempotency key, and keeps the answer's id", async () => {
      answers = [{ status: 201, body: '{"id":"r-77"}' }]
      assert.deepEqual(await channel.send({ recipient: '42', text: 'Hi Ädа', deliveryId: 'dlv_1' }), { externalId: 'r-77' })
      const [{ headers, body }] = posted as [Posted]
      assert.deepEqual(JSON.parse(body), { type: 'message', id: 'dlv_1', chatId: '42', text: 'Hi Ädа' })
      assert.equal(headers['idempotency-key'], 'dlv_1')
      assert.equal(headers['x-signature'], signature(headers['x-timestamp'] as string, body))
      assert.ok(Math.abs(Number(headers['x-timestamp']) - Date.now() / 1000) < 60)
    })

    it('takes any 2xx, whatever its body', async () => {
      answers = [
        { status: 204 },
        { status: 200, body: 'ok' },
        { status: 200, body: 'x'.repeat(200_000) },
        { status: 200, body: '{"id":5}' },
      ]
      for (let count = 0; count < 4; count++) assert.deepEqual(await channel.send({ recipient: '42', text: 'x' }), {})
    })

    it('tries again with the same key after a temporary failure', async () => {
      answers = [{ status: 503 }, { status: 429, headers: { 'Retry-After': '0' } }]
      assert.deepEqual(await channel.send({ recipient: '42', text: 'x', deliveryId: 'dlv_2' }), {})
      assert.deepEqual(
        posted.map(({ headers }) => headers['idempotency-key']),
        ['dlv_2', 'dlv_2', 'dlv_2'],
      )
    })

    it('leaves it to the gateway after three attempts', async () => {
      answers = [{ status: 500 }, { status: 502 }, { status: 500 }]
      await assert.rejects(channel.send({ recipient: '42', text: 'x' }), {
        retryable: true,
        message: /answered with 500, after 3 of 3 attempts/,
      })
    })

    it('passes a long Retry-After on instead of waiting, in seconds and as a date', async () => {
      answers = [{ status: 429, headers: { 'Retry-After': '120' } }]
      await assert.rejects(channel.send({ recipient: '42', text: 'x' }), { retryable: true, retryAfterMs: 120_000 })
      answers = [{ status: 503, headers: { 'Retry-After': new Date(Date.now() + 60_000).toUTCString() } }]
      await assert.rejects(
        channel.send({ recipient: '42', text: 'x' }),
        (error: { retryAfterMs: number }) => error.retryAfterMs > 50_000 && error.retryAfterMs <= 60_000,
      )
      assert.equal(posted.length, 2)
    })

    for (const status of [400, 401, 404, 410, 302]) {
      it(`gives up for good at ${status}`, async () => {
        answers = [{ status, headers: { location: '/elsewhere' } }]
        await assert.rejects(channel.send({ recipient: '42', text: 'x' }), { retryable: false })
        assert.equal(posted.length, 1)
      })
    }

    it('says what cannot be reached, and never the secret', async () => {
      const closed = await plugin.connect({ settings: { secret, callbackUrl: 'http://127.0.0.1:9/' } })
      await assert.rejects(
        closed.send({ recipient: '42', text: 'x' }),
        (error: Error & { retryable: boolean }) =>
          error.retryable && /http:\/\/127\.0\.0\.1:9 could not be reached/.test(error.message) && !error.message.includes(secret),
      )
    })
  })

  it('refuses settings that cannot work', async () => {
    for (const [settings, reason] of [
      [{ callbackUrl: 'nowhere' }, /callbackUrl must be an address/],
      [{ callbackUrl: 'ftp://x' }, /callbackUrl must be an address/],
      [{ callbackUrl: 'http://user:pass@host/' }, /must not hold a user or a password/],
      [{ toleranceSeconds: '-1' }, /toleranceSeconds must be/],
      [{ toleranceSeconds: '1e3' }, /toleranceSeconds must be/],
    ] as [Record<string, string>, RegExp][]) {
      await assert.rejects(plugin.connect({ settings: { secret, callbackUrl, ...settings } }), { retryable: false, message: reason })
    }
  })

  it('tests settings with a signed request', async () => {
    assert.equal((await plugin.testSettings({ secret, callbackUrl })).ok, true)
    assert.deepEqual(JSON.parse((posted as [Posted])[0].body), { type: 'test' })
    answers = [{ status: 403 }]
    assert.deepEqual((await plugin.testSettings({ secret, callbackUrl })).ok, false)
  })

  it("runs from a copy of its folder, alone, under Node's permission flag", async () => {
    const temporary = await realpath(await mkdtemp(join(tmpdir(), 'http-channel-')))
    const copy = join(temporary, 'http-channel')
    await cp(folder, copy, { recursive: true })
    const confined = await startPlugin(copy, {
      dataDir: join(temporary, 'data'),
      nodeArgs: ['--experimental-permission', `--allow-fs-read=${copy}`, `--allow-fs-write=${join(temporary, 'data')}`],
    })
    const there = await confined.connect({ settings: { secret, callbackUrl } })
    assert.deepEqual(await there.send({ recipient: '42', text: 'x' }), {})
    assert.deepEqual(await confined.stop(), { code: 0, signal: null })
    await rm(temporary, { recursive: true })
  })

  it('passes every check of the conformance kit', async () => {
    const { checks } = await testConformance(folder, {
      sample: join(folder, 'test/webhook.json'),
      settings: { secret, callbackUrl: '{sink}' },
    })
    assert.deepEqual(
      checks.filter(({ outcome }) => outcome !== 'pass'),
      [],
    )
  })
})
