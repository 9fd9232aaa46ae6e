import assert from 'node:assert/strict'
import { createHmac } from 'node:crypto'
import { cp, mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { launchGateway, type GatewayProcess } from '../support/gatewayProcess.js'
import { waitFor } from '../support/waitFor.js'

const EXAMPLE = fileURLToPath(new URL('../../examples/plugins/http-channel', import.meta.url))
const SECRET = 'a-secret-that-must-not-be-seen'
const ADMIN = { email: 'admin@localhost', password: 'correct horse battery' }

/** Processes of this machine, the plugins among them, in whose file below /proc the text stands. */
const processesThatShow = async (text: string, file: string): Promise<string[]> => {
  const pids = (await readdir('/proc').catch(() => [])).filter(name => /^\d+$/.test(name))
  const contents = await Promise.all(pids.map(pid => readFile(join('/proc', pid, file), 'utf8').catch(() => '')))
  return pids.filter((_, index) => contents[index]?.includes(text))
}

/** What a chat platform is to the gateway: it posts signed messages and takes the replies. */
class Platform {
  readonly replies: { id: string; chatId: string; text: string }[] = []
  isUp = true
  readonly #server: Server

  constructor() {
    this.#server = createServer((request, response) => {
      let body = ''
      request.on('data', (chunk: Buffer) => (body += chunk.toString()))
      request.on('end', () => {
        if (this.isUp) this.replies.push(JSON.parse(body))
        response.writeHead(this.isUp ? 200 : 503).end('{}')
      })
    }).listen(0, '127.0.0.1')
  }

  get url(): string {
    return `http://127.0.0.1:${String((this.#server.address() as AddressInfo).port)}/`
  }

  async post(webhookUrl: string, id: string, signature?: string): Promise<Response> {
    const body = JSON.stringify({ id, chatId: '42', from: { id: 'u1' }, text: `/remember note ${id}` })
    const now = String(Math.floor(Date.now() / 1000))
    const signed = signature ?? `sha256=${createHmac('sha256', SECRET).update(`${now}.${body}`).digest('hex')}`
    return fetch(webhookUrl, {
      method: 'POST',
      body,
      headers: { 'Content-Type': 'application/json', 'X-Timestamp': now, 'X-Signature': signed },
    })
  }

  /** Replies by delivery: one delivered twice under its id counts once, as platforms count. */
  get delivered(): number {
    return new Set(this.replies.map(({ id }) => id)).size
  }

  close(): void {
    this.#server.close()
  }
}

describe('a message through a sandboxed plugin', () => {
  let dataDir: string
  let platform: Platform
  let gateway: GatewayProcess
  let token = ''
  let at: Record<string, string> = {}

  const start = async (): Promise<void> => {
    const settings = {
      'Service:Plugins:Enabled': 'true',
      'Service:Admin:Password': ADMIN.password,
      ...at,
      'Service:Log:Level': 'debug',
    }
    gateway = await launchGateway({ dataDir, settings })
    // The webhook URL that the platform knows has to stay the same.
    at = { 'Service:Port': new URL(gateway.url).port }
    token = (await gateway.call('POST', '/auth/login', { body: ADMIN })).body.token as string
  }

  const addChannel = async (): Promise<{ id: string; webhookUrl: string }> => {
    const added = await waitFor('the channel type', async () => {
      const answer = await gateway.call('POST', '/channels', {
        token,
        body: { type: 'http', name: 'test', settings: { secret: SECRET, callbackUrl: platform.url } },
      })
      return answer.status === 201 ? answer : undefined
    })
    await waitFor(
      'the connection',
      async () => (await gateway.call('GET', `/channels/${added.body.id as string}`, { token })).body.status === 'connected',
    )
    return added.body as { id: string; webhookUrl: string }
  }

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'gateway-message-'))
    platform = new Platform()
    at = {}
    await cp(EXAMPLE, join(dataDir, 'plugins', 'http-channel'), { recursive: true })
    await start()
  })
  afterEach(async () => {
    await gateway.stop()
    platform.close()
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
  })

  it('brings one reply for one message, however often it is delivered, and none for a forged one', async () => {
    const { id, webhookUrl } = await addChannel()
    assert.equal((await platform.post(webhookUrl, 'm1', 'sha256=forged')).status, 401)
    for (let i = 0; i < 3; i++) assert.equal((await platform.post(webhookUrl, 'm1')).status, 202)
    await waitFor('the reply', () => platform.replies.length === 1)
    assert.equal((await platform.post(webhookUrl, 'm2')).status, 202)
    await waitFor('the next reply', () => platform.replies.length === 2)
    assert.deepEqual(
      platform.replies.map(({ chatId }) => chatId),
      ['42', '42'],
    )
    const channel = await waitFor('nothing waiting', async () => {
      const { body } = await gateway.call('GET', `/channels/${id}`, { token })
      return body.inbox.waiting === 0 && body.outbox.waiting === 0 ? body : undefined
    })
    assert.deepEqual([channel.inbox.dead, channel.outbox.dead], [0, 0])
    assert.equal(channel.settings.secret, '********')
    assert.equal(await fetch(`${webhookUrl}?challenge=abc`).then(answer => answer.text()), 'abc')
    assert.equal((await fetch(`${webhookUrl}x`, { method: 'POST' })).status, 404)
  })

  it('is answered after kill -9 between acknowledgement and reply, once', async () => {
    const { webhookUrl } = await addChannel()
    platform.isUp = false
    for (const id of ['m1', 'm2', 'm3']) assert.equal((await platform.post(webhookUrl, id)).status, 202)
    gateway.kill('SIGKILL')
    await gateway.exited
    platform.isUp = true
    await start()
    await waitFor('the replies', () => platform.delivered === 3, 60_000)
    assert.equal((await platform.post(webhookUrl, 'm2')).status, 202)
    assert.equal((await platform.post(webhookUrl, 'm4')).status, 202)
    await waitFor('the fourth', () => platform.delivered === 4)
    const sessions = (await gateway.call('GET', '/sessions', { token })).body.items as { id: string }[]
    assert.equal(sessions.length, 1)
    const { items } = (await gateway.call('GET', `/sessions/${sessions[0]!.id}/messages`, { token })).body as { items: { role: string }[] }
    assert.equal(items.filter(({ role }) => role === 'user').length, 4)
    assert.equal(items.filter(({ role }) => role === 'assistant').length, 4)
  })

  it('is kept while the plugin is stopped, and answered when it is back', async () => {
    const { webhookUrl } = await addChannel()
    await gateway.call('POST', '/plugins/http-channel/stop', { token })
    const kept = await platform.post(webhookUrl, 'm1')
    assert.equal(kept.status, 202)
    assert.match(await kept.text(), /kept/)
    assert.equal((await fetch(`${webhookUrl}?challenge=abc`)).status, 503)
    const another = await gateway.call('POST', '/channels', {
      token,
      body: { type: 'http', name: 'second', settings: { secret: SECRET, callbackUrl: platform.url } },
    })
    assert.equal(another.status, 201)
    assert.equal(another.body.settings.secret, '********')
    await gateway.call('POST', '/plugins/http-channel/restart', { token })
    await waitFor('the reply', () => platform.delivered === 1)
    await waitFor(
      'the second channel',
      async () => (await gateway.call('GET', `/channels/${another.body.id as string}`, { token })).body.status === 'connected',
    )
  })

  it('leaves its secret in no file, no answer and no log', async () => {
    const { id, webhookUrl } = await addChannel()
    await platform.post(webhookUrl, 'm1')
    await waitFor('the reply', () => platform.delivered === 1)
    for (const path of [`/channels/${id}`, '/channels', '/plugins/http-channel', '/channels/types'])
      assert.ok(!(await gateway.call('GET', path, { token })).text.includes(SECRET), path)
    assert.ok(!gateway.stderr().includes(SECRET))
    for (const shown of ['cmdline', 'environ']) assert.deepEqual(await processesThatShow(SECRET, shown), [], shown)
    const files = (await readdir(dataDir, { recursive: true, withFileTypes: true })).filter(entry => entry.isFile())
    for (const file of files) assert.ok(!(await readFile(join(file.parentPath, file.name))).includes(SECRET), file.name)
  })

  it('refuses channels that lack a setting, or of a type that nobody knows, and starts nothing', async () => {
    await addChannel()
    const missing = await gateway.call('POST', '/channels', { token, body: { type: 'http', name: 'x', settings: { secret: '  ' } } })
    assert.equal(missing.status, 422)
    assert.match(missing.text, /secret/)
    assert.match(missing.text, /callbackUrl/)
    assert.equal((await gateway.call('POST', '/channels', { token, body: { type: 'pigeon', name: 'x', settings: {} } })).status, 422)
    assert.equal((await gateway.call('GET', '/channels', { token })).body.items.length, 1)
  })
})
