import assert from 'node:assert/strict'
import { request } from 'node:http'
import { MAX_GUESSES } from '../../../plugins/webhooks/guesses.js'
import { MAX_WEBHOOK_BYTES } from '../../../plugins/webhooks/routes.js'
import { collections } from '../../../plugins/channels/rows.js'
import { waitFor } from '../../support/waitFor.js'
import { ScriptedGateway, type Added } from '../channels/scripted.js'

describe('the receive route of webhooks', () => {
  let scripted: ScriptedGateway
  let channel: Added

  beforeEach(async () => {
    scripted = await ScriptedGateway.start()
    channel = await scripted.addChannel()
  })
  afterEach(() => scripted.stop())

  const webhooks = async (): Promise<string[]> =>
    (await scripted.journal()).filter(({ method }) => method === 'webhook').map(({ http }) => http)

  it('makes one message of the same delivery, however often and however close together it comes', async () => {
    const statuses = await Promise.all(Array.from({ length: 20 }, async () => (await scripted.post(channel, { id: 'm1' })).status))
    assert.deepEqual([...new Set(statuses)], [202])
    await scripted.untilSent(1)
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 202)
    await scripted.post(channel, { id: 'm2' })
    await scripted.untilSent(2)
    await scripted.untilIdle(channel.id)
    assert.deepEqual((await scripted.sent()).map(({ messageId }) => messageId).sort(), ['m1', 'm2'])
  })

  it('keeps a message of the same id apart for each channel', async () => {
    const second = await scripted.addChannel()
    await scripted.post(channel, { id: 'm1' })
    await scripted.post(second, { id: 'm1' })
    assert.deepEqual(new Set((await scripted.untilSent(2)).map(({ channelId }) => channelId)), new Set([channel.id, second.id]))
  })

  it('gives a verification request to the adapter as GET, and takes HEAD for GET without its body', async () => {
    const verified = await fetch(`${channel.webhookUrl}?challenge=abc`)
    assert.deepEqual([verified.status, await verified.text()], [200, 'abc'])
    const head = await fetch(`${channel.webhookUrl}?challenge=abc`, { method: 'HEAD' })
    assert.deepEqual([head.status, await head.text()], [200, ''])
    assert.deepEqual(await webhooks(), ['GET', 'GET'])
    for (const method of ['PUT', 'PATCH', 'DELETE']) {
      const answer = await fetch(channel.webhookUrl, { method })
      assert.deepEqual([answer.status, answer.headers.get('allow')], [405, 'GET, POST'])
    }
    assert.equal((await webhooks()).length, 2)
  })

  it('keeps nothing of a verification request that meets no adapter', async () => {
    await scripted.expect(200, 'POST', '/plugins/scripted/stop')
    for (const method of ['GET', 'HEAD']) {
      const answer = await fetch(channel.webhookUrl, { method })
      assert.equal(answer.status, 503)
      assert.ok(Number(answer.headers.get('retry-after')) > 0)
    }
    assert.equal((await scripted.channel(channel.id)).inbox.waiting, 0)
  })

  it('answers every slug that names nothing alike: unknown, damaged, of a disabled and of a deleted channel', async () => {
    const disabled = await scripted.addChannel()
    await scripted.expect(200, 'PATCH', `/channels/${disabled.id}`, { enabled: false })
    const deleted = await scripted.addChannel()
    await scripted.expect(204, 'DELETE', `/channels/${deleted.id}`)
    const base = channel.webhookUrl.slice(0, channel.webhookUrl.lastIndexOf('/') + 1)
    const urls = [
      `${base}nothing`,
      `${base}chn_x.y`,
      `${base}${channel.id}`,
      `${base}${channel.id}.${'A'.repeat(32)}`,
      `${channel.webhookUrl}x`,
      channel.webhookUrl.slice(0, -1),
      channel.webhookUrl.replace('chn_', 'CHN_'),
      disabled.webhookUrl,
      deleted.webhookUrl,
    ]
    const answers = new Set<string>()
    for (const url of urls) {
      const answer = await fetch(url, { method: 'POST', body: '{}' })
      const { error } = (await answer.json()) as { error: { requestId?: string } }
      delete error.requestId
      const names = [...answer.headers.keys()].filter(name => name !== 'date').sort()
      answers.add(JSON.stringify([answer.status, error, names]))
    }
    assert.deepEqual([...answers].length, 1, [...answers].join('\n'))
    assert.match([...answers][0] ?? '', /^\[404,{"code":"not_found"/)
    assert.deepEqual(await webhooks(), [])
  })

  it('slows an address that guesses slugs down, and serves the real ones all the same', async () => {
    const statuses: number[] = []
    for (let i = 0; i < MAX_GUESSES + 2; i++) statuses.push((await fetch(`${channel.webhookUrl}${String(i)}`, { method: 'POST' })).status)
    assert.deepEqual(statuses.slice(-2), [429, 429])
    assert.ok(statuses.slice(0, MAX_GUESSES).every(status => status === 404))
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 202)
  })

  it('refuses a body over the limit, declared or streamed, without showing it to the adapter', async () => {
    const declared = await fetch(channel.webhookUrl, { method: 'POST', body: 'x'.repeat(MAX_WEBHOOK_BYTES + 1) })
    assert.deepEqual([declared.status, ((await declared.json()) as { error: { code: string } }).error.code], [413, 'payload_too_large'])
    const streamed = await new Promise<number>((resolve, reject) => {
      const sending = request(channel.webhookUrl, { method: 'POST' }, answer => {
        resolve(answer.statusCode ?? 0)
        sending.destroy()
      }).on('error', reject)
      for (let sent = 0; sent <= MAX_WEBHOOK_BYTES; sent += 65_536) sending.write('x'.repeat(65_536))
    })
    assert.equal(streamed, 413)
    assert.deepEqual(await webhooks(), [])
    const atLimit = await scripted.post(channel, JSON.stringify({ id: 'm1', chatId: '1' }).padEnd(MAX_WEBHOOK_BYTES))
    assert.equal(atLimit.status, 202)
  })

  it('passes on what the adapter refuses, and keeps nothing of it', async () => {
    const forged = await scripted.post(channel, { id: 'm1', wish: { status: 401, body: 'bad signature' } })
    assert.deepEqual([forged.status, await forged.text()], [401, 'bad signature'])
    assert.equal((await scripted.post(channel, { id: 'm1', wish: { act: 'reject', message: 'never' } })).status, 400)
    assert.equal((await scripted.post(channel, { id: 'm1', wish: { status: 503 } })).status, 503)
    const { inbox } = await scripted.channel(channel.id)
    assert.deepEqual(inbox, { waiting: 0, dead: 0 })
    assert.equal((await scripted.post(channel, { id: 'm1' })).status, 202)
    await scripted.untilSent(1)
  })

  it('leaves nothing behind of what comes in while its channel is deleted', async () => {
    const second = await scripted.addChannel()
    const late = scripted.post(channel, { id: 'm1', wish: { slowMs: 500 } })
    await waitFor('the adapter to have it', async () => (await webhooks()).length === 1)
    await scripted.expect(204, 'DELETE', `/channels/${channel.id}`)
    await late
    await scripted.post(second, { id: 'm2' })
    await scripted.untilSent(1)
    await scripted.gateway.stop({ keep: true })
    const left = await scripted.records('channels', 'inbox', collections.inbox)
    assert.deepEqual([...new Set(left.map(({ channelId }) => channelId))], [second.id])
    assert.deepEqual(
      (await scripted.sent()).map(({ messageId }) => messageId),
      ['m2'],
    )
  })

  it('shows the adapter no cookies and no headers of the connection', async () => {
    const headers = { Cookie: 'session=1', 'Proxy-Authorization': 'Basic eDp5', 'X-Platform': 'yes', 'Content-Type': 'text/x-own' }
    await fetch(`${channel.webhookUrl}?a=1&a=2&b=%20`, { method: 'POST', body: '{"id":"m1","chatId":"1"}', headers })
    const [noted] = (await scripted.journal()).filter(({ method }) => method === 'webhook')
    const names = Object.keys(noted!.headers)
    assert.ok(!names.some(name => ['cookie', 'proxy-authorization', 'connection', 'transfer-encoding'].includes(name)), names.join())
    assert.deepEqual([noted!.headers['x-platform'], noted!.headers['content-type']], ['yes', 'text/x-own'])
    assert.deepEqual(noted!.query, { a: '2', b: ' ' })
  })

  it('lets the adapter set no header that speaks for the gateway, and no page that a browser would run', async () => {
    const set = {
      'Set-Cookie': 'session=stolen',
      Location: 'http://evil.example',
      'X-Content-Type-Options': 'none',
      'X-Service-Request-Id': 'mine',
      'Access-Control-Allow-Origin': '*',
      'X-Broken': 'a\r\nSet-Cookie: b=c',
      'Content-Length': '1',
      'X-Hub-Answer': 'fine',
      'Content-Type': 'text/html',
    }
    const response = { status: 200, headers: set, body: '<script>alert(1)</script>' }
    const answer = await scripted.post(channel, JSON.stringify({ answer: { response } }))
    assert.deepEqual([answer.status, await answer.text()], [200, response.body])
    for (const name of ['set-cookie', 'location', 'access-control-allow-origin', 'x-broken'])
      assert.equal(answer.headers.get(name), null, name)
    assert.equal(answer.headers.get('x-content-type-options'), 'nosniff')
    assert.notEqual(answer.headers.get('x-service-request-id'), 'mine')
    assert.equal(answer.headers.get('x-hub-answer'), 'fine')
    assert.match(answer.headers.get('content-type') ?? '', /^text\/plain/)
  })

  it('passes bytes on that are no text, unchanged in both directions', async () => {
    const bytes = Buffer.from([0xff, 0x00, 0xfe, 0x80])
    await fetch(channel.webhookUrl, { method: 'POST', body: bytes })
    const [noted] = (await scripted.journal()).filter(({ method }) => method === 'webhook')
    assert.deepEqual([noted!.bodyEncoding, Buffer.from(noted!.body, 'base64')], ['base64', bytes])
    const response = { body: bytes.toString('base64'), bodyEncoding: 'base64', headers: { 'content-type': 'image/png' } }
    const answer = await scripted.post(channel, JSON.stringify({ answer: { response } }))
    assert.deepEqual(Buffer.from(await answer.arrayBuffer()), bytes)
    assert.equal(answer.headers.get('content-type'), 'image/png')
  })
})
