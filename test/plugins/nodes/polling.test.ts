import assert from 'node:assert/strict'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { pairNode, send, wait, untilStatus, type Command } from './support.js'

const SCOPES = ['system.info', 'screen.capture', 'input.control']

describe('a node that polls', () => {
  let gateway: TestGateway
  let admin: string
  let node: string

  const start = async (options: { dataDir?: string; settings?: Record<string, string> } = {}): Promise<void> => {
    gateway = await startGateway(options)
    admin = await login(gateway)
  }
  beforeEach(async () => {
    await start()
    node = await pairNode(gateway, admin, 'robot', SCOPES)
  })
  afterEach(() => gateway.stop())

  const poll = async (query = ''): Promise<Command[]> =>
    (await gateway.call('GET', `/nodes/me/commands${query}`, { token: node })).body.commands as Command[]
  const say = (commandId: string, what: string, body: unknown, token = node) =>
    gateway.call('POST', `/nodes/me/commands/${commandId}/${what}`, { token, body })
  const audited = async () =>
    (await gateway.call('GET', '/nodes/robot/audit', { token: admin })).body.items as { action: string; details: { why?: string } }[]
  const enqueue = (body: Record<string, unknown> = { command: 'system.info' }) => send(gateway, admin, 'robot', body)

  it('takes a command once, reports progress and posts its result', async () => {
    const commandId = await enqueue({ command: 'system.info', params: { 'a.b': 1, $set: [null] }, timeoutMs: 20_000 })
    assert.match(commandId, /^[0-9a-f]{8}-[0-9a-f]{4}-4/)
    assert.equal((await wait(gateway, admin, commandId, 0)).status, 'queued')
    const waiting = wait(gateway, admin, commandId)
    assert.deepEqual(await poll(), [{ commandId, command: 'system.info', params: { 'a.b': 1, $set: [null] }, timeoutMs: 20_000 }])
    assert.deepEqual(await poll(), [])
    assert.equal((await wait(gateway, admin, commandId, 0)).status, 'dispatched')
    assert.equal((await say(commandId, 'progress', { percent: 50, message: 'half' })).body.status, 'running')
    const listed = (await gateway.call('GET', '/nodes/robot/commands', { token: admin })).body.items[0]
    assert.deepEqual([listed.status, listed.progress], ['running', { percent: 50, message: 'half' }])
    const posted = await say(commandId, 'result', { ok: true, result: { os: 'linux' }, durationMs: 12 })
    assert.deepEqual([posted.status, posted.body], [200, { commandId, status: 'succeeded' }])
    assert.deepEqual(await waiting, { commandId, status: 'succeeded', ok: true, result: { os: 'linux' }, durationMs: 12 })
  })

  it('gives several polls at once each command once', async () => {
    const ids = await Promise.all(Array.from({ length: 40 }, () => enqueue()))
    const polls = await Promise.all(Array.from({ length: 8 }, () => poll()))
    const given = polls.flat().map(({ commandId }) => commandId)
    assert.deepEqual(given.sort(), ids.sort())
  })

  it('gives what has not ended once more to a node that asks for it', async () => {
    const commandId = await enqueue()
    await poll()
    assert.deepEqual(
      (await poll('?resume=true')).map(command => command.commandId),
      [commandId],
    )
    await say(commandId, 'complete', { ok: true, durationMs: 1 })
    assert.deepEqual(await poll('?resume=true'), [])
    assert.deepEqual((await wait(gateway, admin, commandId)).result, {})
  })

  it('is not given more at once than it can take in, and large parameters stay out of lists', async () => {
    const ids = []
    for (let i = 0; i < 4; i++) ids.push(await enqueue({ command: 'system.info', params: { i, text: 'x'.repeat(500_000) } }))
    const polls = [await poll(), await poll(), await poll()]
    assert.deepEqual(
      polls.map(({ length }) => length),
      [2, 2, 0],
    )
    assert.deepEqual(
      polls.flat().map(({ commandId }) => commandId),
      ids,
    )
    assert.ok(polls.flat().every(({ params }, i) => params.i === i && (params.text as string).length === 500_000))
    const listed = await gateway.call('GET', '/nodes/robot/commands', { token: admin })
    assert.ok(listed.body.items.length === 4 && listed.text.length < 10_000)
  })

  it('is online while it polls or sends heartbeats, and offline without', async () => {
    await gateway.stop({ keep: true })
    await start({ dataDir: gateway.dataDir, settings: { 'Service:Nodes:OfflineAfter': '0.3' } })
    await untilStatus(gateway, admin, 'robot', 'offline')
    const beat = { nodeId: 'robot', status: 'online', uptime: 5, platform: 'linux', version: '1.2.3', cpuPercent: 1.5, memoryMb: 64 }
    const answer = await gateway.call('POST', '/nodes/me/heartbeat', { token: node, body: beat })
    assert.deepEqual([answer.status, answer.body.scopes], [200, SCOPES])
    const shown = (await gateway.call('GET', '/nodes/robot', { token: admin })).body
    assert.deepEqual(
      [shown.status, shown.transport, shown.version, shown.cpuPercent, shown.memoryMb],
      ['online', 'polling', '1.2.3', 1.5, 64],
    )
    await untilStatus(gateway, admin, 'robot', 'offline')
    await poll()
    assert.equal((await gateway.call('GET', '/nodes/robot', { token: admin })).body.status, 'online')
  })

  it('records one result, whatever comes after it', async () => {
    const commandId = await enqueue()
    await poll()
    const results = await Promise.all(
      Array.from({ length: 5 }, (_, i) => say(commandId, 'result', { ok: true, result: { i }, durationMs: 1 })),
    )
    assert.deepEqual(
      results.map(answer => answer.status),
      [200, 200, 200, 200, 200],
    )
    const first = await wait(gateway, admin, commandId)
    assert.equal(
      (await say(commandId, 'result', { ok: false, error: { code: 'internal_error', message: 'no' }, durationMs: 1 })).status,
      200,
    )
    assert.deepEqual(await wait(gateway, admin, commandId), first)
    assert.equal((await audited()).filter(({ action, details }) => action === 'nodes.result' && details.why === 'again').length, 5)
  })

  it('is refused results of other nodes, of what was never sent, and late ones, and the audit knows', async () => {
    const other = await pairNode(gateway, admin, 'other', SCOPES)
    const [foreign, late] = [await enqueue(), await enqueue({ command: 'system.info', timeoutMs: 50 })]
    const body = { ok: true, result: {}, durationMs: 1 }
    assert.equal((await say(foreign, 'result', body)).status, 409, 'not dispatched yet')
    await poll()
    assert.equal((await say(foreign, 'result', body, other)).status, 404)
    assert.equal((await say('nothing', 'result', body)).status, 404)
    assert.equal((await say(foreign, 'progress', {}, other)).status, 404)
    const ended = await wait(gateway, admin, late)
    assert.deepEqual([ended.status, ended.ok, ended.error.code], ['timed_out', false, 'timeout'])
    const refused = await say(late, 'result', body)
    assert.deepEqual([refused.status, refused.body.error.details.status], [409, 'timed_out'])
    assert.equal((await wait(gateway, admin, foreign, 0)).status, 'dispatched')
    const why = (await audited()).filter(({ action }) => action === 'nodes.result').map(({ details }) => details.why)
    assert.deepEqual(why.sort(), ['foreign', 'late', 'not dispatched'])
    const others = (await gateway.call('GET', '/nodes/other/audit', { token: admin })).body.items as { details: { why?: string } }[]
    assert.equal(others.filter(({ details }) => details.why === 'foreign').length, 2)
  })

  it('sends a result in parts, in any order and twice, over a restart of the gateway', async () => {
    const commandId = await enqueue({ command: 'screen.capture', timeoutMs: 60_000 })
    await poll()
    const part = (partIndex: number, result: unknown, isLast = false) =>
      say(commandId, 'result', { ok: true, result, durationMs: partIndex, partIndex, isLast })
    assert.equal((await part(2, { image: 'c'.repeat(700_000), format: 'png', width: 3 }, true)).body.status, 'dispatched')
    await part(0, { image: 'a'.repeat(700_000), width: 1 })
    await gateway.stop({ keep: true })
    await start({ dataDir: gateway.dataDir })
    await part(0, { image: 'zz' })
    assert.equal((await part(1, { image: 'b'.repeat(700_000), width: 2 })).body.status, 'succeeded')
    const { result, durationMs, truncated } = await wait(gateway, admin, commandId)
    assert.ok(result.image === 'a'.repeat(700_000) + 'b'.repeat(700_000) + 'c'.repeat(700_000))
    assert.deepEqual([result.width, result.format, durationMs, truncated], [3, 'png', 2, undefined])
    assert.equal((await part(1, {})).status, 200)
  })

  it('can close the parts of a result without another one', async () => {
    const commandId = await enqueue()
    await poll()
    await say(commandId, 'result', { ok: true, result: { text: 'one ' }, durationMs: 1, partIndex: 0, isLast: false })
    await say(commandId, 'result', { ok: true, result: { text: 'two' }, durationMs: 1, partIndex: 1 })
    await say(commandId, 'complete', { ok: true, durationMs: 9 })
    const { result, durationMs } = await wait(gateway, admin, commandId)
    assert.deepEqual([result, durationMs], [{ text: 'one two' }, 9])
  })

  it('has fields of more than 1 MiB cut at a whole character, and named', async () => {
    const commandId = await enqueue()
    await poll()
    const result = { exact: 'x'.repeat(1_048_576), over: 'é'.repeat(524_287) + '€uro', files: [{ data: 'y'.repeat(1_048_577) }] }
    assert.equal((await say(commandId, 'result', { ok: true, result, durationMs: 1 })).status, 200)
    const ended = await wait(gateway, admin, commandId)
    assert.deepEqual(ended.truncated, ['over', 'files.0.data'])
    assert.equal(ended.result.exact.length, 1_048_576)
    assert.equal(ended.result.over, 'é'.repeat(524_287))
    assert.equal(ended.result.files[0].data.length, 1_048_576)
    assert.equal((await gateway.call('GET', '/nodes/robot/commands', { token: admin })).body.items[0].result, undefined)
  })

  it('is refused what is malformed or too large, and the command goes on', async () => {
    const commandId = await enqueue()
    await poll()
    for (const body of [
      {},
      { ok: 'yes' },
      { ok: true, result: 'text' },
      { ok: true, partIndex: -1 },
      { ok: true, partIndex: 256 },
      { ok: true, isLast: false },
      [],
    ])
      assert.equal((await say(commandId, 'result', body)).status, 422, JSON.stringify(body))
    assert.equal((await say(commandId, 'result', { ok: true, result: { x: 'x'.repeat(9 * 1024 * 1024) } })).status, 413)
    assert.equal((await wait(gateway, admin, commandId, 0)).status, 'dispatched')
    await say(commandId, 'result', { ok: true, durationMs: 1 })
    assert.deepEqual((await wait(gateway, admin, commandId)).result, {})
  })

  it('keeps the codes of the error table, and turns others into internal_error', async () => {
    for (const [sent, code, status] of [
      ['not_authorized', 'not_authorized', 'failed'],
      ['platform_unsupported', 'platform_unsupported', 'failed'],
      ['invalid_params', 'invalid_params', 'failed'],
      ['timeout', 'timeout', 'timed_out'],
      ['cancelled', 'cancelled', 'cancelled'],
      ['busy', 'busy', 'failed'],
      ['whatever', 'internal_error', 'failed'],
    ] as const) {
      const commandId = await enqueue()
      await poll()
      await say(commandId, 'result', { ok: false, error: { code: sent, message: 'so it is', details: { x: 1 } }, durationMs: 1 })
      const ended = await wait(gateway, admin, commandId)
      assert.deepEqual([ended.status, ended.ok, ended.error.code, ended.error.message], [status, false, code, 'so it is'])
      assert.equal(ended.error.details.x, 1)
    }
  })

  it('is asked again after it was busy, within the time of the command', async () => {
    const commandId = await enqueue({ command: 'system.info', timeoutMs: 20_000 })
    await poll()
    const busy = { ok: false, error: { code: 'busy', message: 'later', retryAfterMs: 800 }, durationMs: 1 }
    assert.equal((await say(commandId, 'result', busy)).body.status, 'dispatched')
    assert.deepEqual(await poll(), [])
    await waitFor('the command to be given again', async () => (await poll()).length === 1)
    assert.equal((await say(commandId, 'result', { ok: false, error: { ...busy.error, retryAfterMs: 30_000 } })).body.status, 'failed')
    assert.deepEqual((await wait(gateway, admin, commandId)).error, { code: 'busy', message: 'later', retryAfterMs: 30_000 })
  })

  it('is not given what was cancelled, and its result is refused', async () => {
    const [first, second] = [await enqueue(), await enqueue()]
    const cancel = (id: string) => gateway.call('POST', `/nodes/commands/${id}/cancel`, { token: admin })
    const waiting = wait(gateway, admin, first)
    const cancelled = await cancel(first)
    assert.deepEqual([cancelled.status, cancelled.body.status, cancelled.body.error.code], [200, 'cancelled', 'cancelled'])
    assert.equal((await waiting).status, 'cancelled')
    assert.deepEqual(
      (await poll()).map(({ commandId }) => commandId),
      [second],
    )
    await cancel(second)
    assert.equal((await say(second, 'result', { ok: true, durationMs: 1 })).status, 409)
    assert.equal((await cancel(second)).status, 409)
    assert.equal((await cancel('nothing')).status, 404)
  })

  it('is sent only what its scopes allow, by name or family', async () => {
    const post = (command: string) => gateway.call('POST', '/nodes/robot/commands', { token: admin, body: { command } })
    for (const command of ['system.info', 'input.move', 'input.type']) assert.equal((await post(command)).status, 202, command)
    for (const command of ['system.reboot', 'app.open', 'input', 'screen', 'inputs.move']) {
      const refused = await post(command)
      assert.deepEqual([refused.status, refused.body.error.code], [403, 'not_authorized'], command)
    }
    for (const command of ['', 'no spaces', '.x', 'x.', 7]) assert.equal((await post(command as string)).status, 422, String(command))
    assert.equal((await gateway.call('GET', '/nodes/robot/commands', { token: admin })).body.items.length, 3)
    // A scope that is taken away meanwhile takes what waits with it.
    await gateway.call('PUT', '/nodes/robot/permissions', { token: admin, body: { scopes: ['system.info'] } })
    assert.deepEqual(
      (await poll()).map(({ command }) => command),
      ['system.info'],
    )
    const { items } = (await gateway.call('GET', '/nodes/robot/commands', { token: admin })).body
    assert.deepEqual(items.map((item: { error?: { code: string }; status: string }) => item.error?.code ?? item.status).sort(), [
      'dispatched',
      'not_authorized',
      'not_authorized',
    ])
  })

  it('keeps its queue over a restart, up to its limits', async () => {
    const commandId = await enqueue()
    await gateway.stop({ keep: true })
    await start({ dataDir: gateway.dataDir, settings: { 'Service:Nodes:MaxQueued': '2' } })
    const second = await enqueue()
    const full = await gateway.call('POST', '/nodes/robot/commands', { token: admin, body: { command: 'system.info' } })
    assert.deepEqual([full.status, full.body.error.code], [429, 'rate_limited'])
    assert.deepEqual(
      (await poll()).map(command => command.commandId),
      [commandId, second],
    )
    await gateway.stop({ keep: true })
    await start({ dataDir: gateway.dataDir })
    assert.equal((await poll()).length, 2, 'after the restart nobody knows what was given')
    assert.equal((await say(commandId, 'result', { ok: true, durationMs: 1 })).status, 200)
  })

  it('is waited for no longer than the time to live of the queue', async () => {
    await gateway.stop({ keep: true })
    await start({ dataDir: gateway.dataDir, settings: { 'Service:Nodes:QueueTtl': '1' } })
    const ended = await wait(gateway, admin, await enqueue(), 20_000)
    assert.deepEqual([ended.status, ended.error.code], ['timed_out', 'timeout'])
    assert.deepEqual(await poll(), [])
  })

  it('reports crashes, of which the newest are kept, and learns of releases', async () => {
    const report = (message: string) =>
      gateway.call('POST', '/nodes/me/crashes', { token: node, body: { message, stack: 'at x', version: '1' } })
    assert.equal((await report('first')).status, 201)
    await report('second')
    const crashes = (await gateway.call('GET', '/nodes/robot/crashes', { token: admin })).body.items as { message: string; stack: string }[]
    assert.deepEqual(
      crashes.map(({ message, stack }) => [message, stack]),
      [
        ['second', 'at x'],
        ['first', 'at x'],
      ],
    )
    const manifest = (query = '') => gateway.call('GET', `/nodes/update-manifest${query}`, { token: node })
    assert.deepEqual((await manifest()).body, { protocolVersions: ['2026-04-01'], platform: null, version: null })
    await gateway.stop({ keep: true })
    const settings = {
      'Service:Nodes:Releases:linux:Version': '2.0.0',
      'Service:Nodes:Releases:linux:Url': 'https://example.com/n',
      'Service:Nodes:Releases:linux:Sha256': 'ab',
      'Service:Nodes:Releases:any:Version': '1.9.0',
    }
    await start({ dataDir: gateway.dataDir, settings })
    const { body } = await manifest('?platform=linux')
    assert.deepEqual([body.version, body.url, body.sha256], ['2.0.0', 'https://example.com/n', 'ab'])
    assert.equal((await manifest('?platform=amiga')).body.version, '1.9.0')
    assert.equal((await gateway.call('GET', '/nodes/update-manifest', { token: admin })).status, 401)
  })

  it('may poll at its interval, with its results beside, under the ordinary limits', async () => {
    await gateway.stop({ keep: true })
    await start({ dataDir: gateway.dataDir, settings: { 'Service:RateLimits:Node': '600' } })
    const statuses = await Promise.all(Array.from({ length: 120 }, () => gateway.call('GET', '/nodes/me/commands', { token: node })))
    assert.ok(statuses.every(({ status }) => status === 200))
  })
})

describe('a command', () => {
  it("is its owner's alone", async () => {
    const gateway = await startGateway()
    const admin = await login(gateway)
    const manager = { email: 'manager@example.com', password: 'another long password' }
    await gateway.call('POST', '/admin/users', { token: admin, body: { ...manager, name: 'M', roles: ['Admin'] } })
    const other = { email: 'user@example.com', password: 'another long password' }
    await gateway.call('POST', '/admin/users', { token: admin, body: { ...other, name: 'U', roles: ['User'] } })
    const [asManager, asOther] = [await login(gateway, manager), await login(gateway, other)]
    await pairNode(gateway, admin, 'robot', ['system.info'])
    const commandId = await send(gateway, admin, 'robot', { command: 'system.info' })
    const post = (token: string) => gateway.call('POST', '/nodes/robot/commands', { token, body: { command: 'system.info' } })
    assert.equal((await post(asOther)).status, 404)
    assert.equal((await post(asManager)).status, 403)
    for (const path of [`/nodes/commands/${commandId}/wait?timeoutMs=0`]) {
      assert.equal((await gateway.call('GET', path, { token: asOther })).status, 404)
      assert.equal((await gateway.call('GET', path, { token: asManager })).status, 200)
    }
    assert.equal((await gateway.call('POST', `/nodes/commands/${commandId}/cancel`, { token: asOther })).status, 404)
    const narrow = await gateway.call('POST', '/auth/tokens', { token: admin, body: { name: 'x', permissions: ['ManageMemory'] } })
    assert.equal((await post(narrow.body.token)).status, 403)
    for (const timeoutMs of ['-1', '60001', 'x'])
      assert.equal((await gateway.call('GET', `/nodes/commands/${commandId}/wait?timeoutMs=${timeoutMs}`, { token: admin })).status, 400)
    await gateway.stop()
  })
})
