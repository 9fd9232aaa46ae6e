import assert from 'node:assert/strict'
import type { CallOptions } from '../../support/gateway.js'
import { ScriptedGateway, TOKEN, type Added } from './scripted.js'

describe('the routes of channels', () => {
  let scripted: ScriptedGateway
  let channel: Added

  beforeEach(async () => {
    scripted = await ScriptedGateway.start()
    channel = await scripted.addChannel({ info: 'mine' })
  })
  afterEach(() => scripted.stop())

  /** The record without what the connection changes by itself. */
  const stored = async (): Promise<unknown> => scripted.channel(channel.id)

  it('show and change nothing of another user', async () => {
    const other = await scripted.otherUser()
    const before = await stored()
    const attempts: [string, string, unknown?][] = [
      ['GET', `/channels/${channel.id}`],
      ['PATCH', `/channels/${channel.id}`, { name: 'taken', enabled: false, settings: { token: 'x' } }],
      ['DELETE', `/channels/${channel.id}`],
      ['POST', `/channels/${channel.id}/test`],
    ]
    for (const [method, path, body] of attempts) {
      const answer = await scripted.call(method, path, body, { token: other })
      const unknown = await scripted.call(method, path.replace(channel.id, 'chn_unknown'), body, { token: other })
      assert.equal(answer.status, 404, `${method} ${path}`)
      assert.deepEqual({ ...answer.body.error, requestId: '' }, { ...unknown.body.error, requestId: '' })
      assert.equal((await scripted.gateway.call(method, path, body === undefined ? {} : { body })).status, 401, `${method} ${path}`)
    }
    assert.deepEqual((await scripted.call('GET', '/channels', undefined, { token: other })).body.items, [])
    assert.deepEqual(await stored(), before)
    assert.equal((await scripted.journal()).filter(({ method }) => method === 'connect').length, 1)
  })

  it('take no agent of another user', async () => {
    const other = await scripted.otherUser()
    const agent = (await scripted.call('POST', '/agents', { name: 'theirs' }, { token: other })).body.id as string
    const before = await stored()
    await scripted.expect(422, 'PATCH', `/channels/${channel.id}`, { agentId: agent, name: 'changed' })
    await scripted.expect(422, 'POST', '/channels', { type: 'scripted', name: 'x', settings: { token: TOKEN }, agentId: agent })
    assert.deepEqual(await stored(), before)
  })

  it('let nobody into another tenant, by header or by prefix, and say nothing of whether it exists', async () => {
    const before = await stored()
    for (const options of [{ headers: { 'X-Service-Tenant': 'acme' } }, {}] satisfies CallOptions[]) {
      const prefix = 'headers' in options ? '' : '/tenants/acme'
      for (const [method, path] of [
        ['GET', '/channels'],
        ['GET', `/channels/${channel.id}`],
        ['PATCH', `/channels/${channel.id}`],
        ['DELETE', `/channels/${channel.id}`],
        ['POST', `/channels/${channel.id}/test`],
        ['POST', '/channels'],
      ] as const) {
        const body = method === 'PATCH' || path === '/channels' ? { type: 'scripted', name: 'x', settings: { token: TOKEN } } : undefined
        const answer = await scripted.call(method, `${prefix}${path}`, method === 'GET' ? undefined : body, options)
        assert.equal(answer.status, 403, `${method} ${prefix}${path}: ${answer.text}`)
        assert.equal(answer.body.error.code, 'not_authorized')
      }
    }
    assert.deepEqual(await stored(), before)
    assert.equal((await scripted.call('GET', '/channels')).body.items.length, 1)
  })

  it('refuse what is malformed with the envelope, naming the field, and change nothing', async () => {
    const before = await stored()
    const wrong: [string, unknown][] = [
      ['name', { name: '' }],
      ['name', { name: 'x'.repeat(201) }],
      ['name', { name: 7 }],
      ['enabled', { enabled: 'yes' }],
      ['agentId', { agentId: 7 }],
      ['agentId', { agentId: 'agt_unknown' }],
      ['settings', { settings: [] }],
      ['settings', { settings: 'token' }],
      ['settings.token', { settings: { token: 7 } }],
      ['settings.token', { settings: { token: 'x'.repeat(16 * 1024 + 1) } }],
      ['settings.token', { settings: { token: null } }],
      ['settings.token', { settings: { token: '   ' } }],
      ['settings', { settings: Object.fromEntries(Array.from({ length: 101 }, (_, i) => [`s${String(i)}`, 'x'])) }],
    ]
    for (const [path, body] of wrong) {
      const { error } = await scripted.expect(422, 'PATCH', `/channels/${channel.id}`, { name: 'changed', ...(body as object) })
      assert.equal(error.code, 'validation_failed')
      assert.equal(error.details.issues[0].path, path, JSON.stringify(error))
      assert.ok(error.requestId)
      const created = { type: 'scripted', name: 'x', settings: { token: TOKEN }, ...(body as object) }
      await scripted.expect(422, 'POST', '/channels', created)
    }
    for (const body of ['{', '[]', '"x"', 'null']) {
      const headers = { 'Content-Type': 'application/json' }
      const answer = await scripted.call('PATCH', `/channels/${channel.id}`, body, { headers })
      assert.ok([400, 422].includes(answer.status), `${body}: ${answer.text}`)
    }
    const oversized = await scripted.call('PATCH', `/channels/${channel.id}`, { name: 'x'.repeat(1024 * 1024) })
    assert.deepEqual([oversized.status, oversized.body.error.code], [413, 'payload_too_large'])
    for (const path of ['/channels?limit=0', '/channels?limit=x', '/channels?cursor=damaged', '/channels/types?cursor=damaged'])
      assert.equal((await scripted.call('GET', path)).status, 400, path)
    assert.deepEqual(await stored(), before)
    assert.equal((await scripted.call('GET', '/channels')).body.items.length, 1)
    assert.equal((await scripted.journal()).filter(({ method }) => method === 'connect').length, 1)
  })

  it('ignore fields that they do not know, and those that are not for clients', async () => {
    const sent = {
      id: 'chn_mine',
      status: 'error',
      webhookUrl: 'http://evil.example',
      type: 'other',
      slug: 's',
      revision: 9,
      userId: 'u',
      deletedAt: 'x',
    }
    const before = (await stored()) as Record<string, unknown>
    const changed = await scripted.expect(200, 'PATCH', `/channels/${channel.id}`, { ...sent, settings: { unknown: 'x', __proto__: 'x' } })
    for (const name of ['id', 'type', 'webhookUrl', 'settings', 'name']) assert.deepEqual(changed[name], before[name])
    const created = await scripted.expect(201, 'POST', '/channels', {
      ...sent,
      type: 'scripted',
      name: 'n',
      settings: { token: TOKEN, unknown: 'x' },
    })
    assert.notEqual(created.id, 'chn_mine')
    assert.ok(!('unknown' in created.settings) && !('slug' in created) && !('userId' in created))
    assert.equal((await scripted.call('GET', `/channels/${channel.id}`)).status, 200)
  })

  it('test the settings of a channel, within a time and without its secret in the answer', async () => {
    const { ok, message } = await scripted.expect(200, 'POST', `/channels/${channel.id}/test`)
    assert.deepEqual([ok, message], [true, 'tested with ********'])
    const refusing = await scripted.addChannel({ onTest: '{"act":"reject","message":"wrong token"}' })
    assert.deepEqual(await scripted.expect(200, 'POST', `/channels/${refusing.id}/test`), { ok: false, message: 'wrong token' })
    const failing = await scripted.addChannel({ onTest: '{"act":"throw"}' })
    assert.equal((await scripted.expect(502, 'POST', `/channels/${failing.id}/test`)).error.code, 'upstream_unavailable')
    await scripted.expect(200, 'POST', '/plugins/scripted/stop')
    assert.equal((await scripted.expect(200, 'POST', `/channels/${channel.id}/test`)).ok, false)
  })
})
