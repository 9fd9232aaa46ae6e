import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createLog } from '../../../core/log.js'
import { collection, type Collection } from '../../../core/store/collection.js'
import { connect } from '../../../core/store/sqlite/connection.js'
import { Removals } from '../../../plugins/identity/removals.js'
import type { RemovalRow } from '../../../plugins/identity/rows.js'
import { engines, type OpenedStore } from '../../support/engines.js'
import { ADMIN, login } from '../../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../../support/gatewayProcess.js'
import { openCollection } from '../../support/store.js'
import { waitFor } from '../../support/waitFor.js'
import { addScripted, TOKEN } from '../channels/scripted.js'
import { pairNode } from '../nodes/support.js'

const PERSON = { email: 'leaver@example.com', password: 'a long enough password' }

/** What the store holds of a user: collection to number, but for the audit and what is noted of the removal itself. */
const leftOf = (dataDir: string, userId: string): Record<string, number> => {
  const db = connect(join(dataDir, 'store.db'))
  try {
    const tables = db.prepare("SELECT name FROM sqlite_master WHERE type='table' AND name LIKE 'c:%'").all()
    const counts = tables.map(({ name }) => {
      const row = db.prepare(`SELECT count(*) AS n FROM "${String(name)}" WHERE instr(doc, ?) > 0`).get(userId)
      return [String(name).slice(2), Number(row?.n)] as const
    })
    return Object.fromEntries(counts.filter(([name, n]) => n > 0 && !name.startsWith('audit.') && name !== 'identity.removals'))
  } finally {
    db.close()
  }
}

describe('a removed user', () => {
  let dataDir: string
  let gateway: GatewayProcess
  let admin: string

  const start = async (): Promise<void> => {
    const settings = { 'Service:Plugins:Enabled': 'true', 'Service:Admin:Password': ADMIN.password }
    gateway = await launchGateway({ dataDir, settings })
    admin = await login(gateway)
  }

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'removal-test-'))
    await addScripted(dataDir)
    await start()
  })
  afterEach(async () => {
    await gateway.stop()
    await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
  })

  const ok = async (method: string, path: string, token: string, body?: unknown): Promise<Record<string, string>> => {
    const answer = await gateway.call(method, path, { token, body })
    assert.ok(answer.status < 300, `${method} ${path}: ${answer.text}`)
    return (answer.body ?? {}) as Record<string, string>
  }

  /** Somebody with something in every area, and the slug that its channel is delivered to. */
  const settle = async (): Promise<{ id: string; webhook: string; nodeToken: string }> => {
    const { id = '' } = await ok('POST', '/admin/users', admin, { ...PERSON, roles: ['Admin'] })
    const token = await login(gateway, PERSON)
    await ok('POST', '/auth/tokens', token, { name: 'script' })
    await ok('POST', '/agents', token, { name: 'Clerk' })
    const file = new FormData()
    file.append('file', new File(['a leaving letter'], 'letter.txt'))
    await ok('POST', '/documents/upload', token, file)
    const { taskId = '' } = await ok('POST', '/chat', token, { message: '/remember that I leave' })
    await waitFor('the task', async () => (await ok('GET', `/tasks/${taskId}`, token)).status === 'succeeded')
    await waitFor('the channel type', async () => JSON.stringify(await ok('GET', '/channels/types', token)).includes('scripted'))
    const channel = await ok('POST', '/channels', token, { type: 'scripted', name: 'Mine', settings: { token: TOKEN } })
    await waitFor('the channel', async () => (await ok('GET', `/channels/${channel.id ?? ''}`, token)).status === 'connected')
    const nodeToken = await pairNode(gateway, token, 'leaving-node')
    return { id, webhook: new URL(channel.webhookUrl ?? '').pathname.slice('/api'.length), nodeToken }
  }

  it('leaves nothing behind, and nothing of it goes on', async () => {
    const { id, webhook, nodeToken } = await settle()
    assert.ok(Object.keys(leftOf(dataDir, id)).length > 8)
    await ok('DELETE', `/admin/users/${id}`, admin)
    await waitFor('the rest to go', () => {
      const left = leftOf(dataDir, id)
      return Object.keys(left).every(name => name === 'nodes.nodes') && left['nodes.nodes'] === 1
    })
    assert.equal((await gateway.call('POST', webhook, { body: { messages: [] } })).status, 404)
    assert.equal((await gateway.call('GET', '/nodes/me', { token: nodeToken })).status, 401)
    const node = await gateway.call('GET', '/nodes/leaving-node', { token: admin })
    assert.equal(node.body.state ?? node.body.status, 'revoked')
  })

  it('is cleared away after a start when the gateway was killed behind the removal', async () => {
    const { id } = await settle()
    assert.ok(Object.keys(leftOf(dataDir, id)).length > 8)
    await ok('DELETE', `/admin/users/${id}`, admin)
    await gateway.stop('SIGKILL')
    await start()
    await waitFor('the rest to go', () => Object.keys(leftOf(dataDir, id)).every(name => name === 'nodes.nodes'))
    assert.equal((await gateway.call('GET', `/admin/users/${id}`, { token: admin })).status, 404)
  })
})

for (const [engine, open] of engines)
  describe(`what removed users had, on ${engine}`, () => {
    let opened: OpenedStore
    let rows: Collection<RemovalRow>
    let removals: Removals
    const asked: string[] = []
    const existing = new Set<string>()
    const leaver = { tenant: null, userId: 'usr_1' }

    const begin = (): Removals =>
      new Removals({
        rows,
        exists: id => Promise.resolve(existing.has(id)),
        log: createLog({ level: 'silent', write: () => undefined }),
        times: { lookMs: 20, againMs: 50 },
      })
    const noting = (area: string) => (): Promise<void> => Promise.resolve(void asked.push(area))

    beforeEach(async () => {
      asked.length = 0
      existing.clear()
      opened = await open()
      rows = await openCollection(opened.store, 'identity.removals', collection.global<RemovalRow>())
      removals = begin()
    })
    afterEach(async () => {
      await removals.stop()
      await opened.remove()
    })

    it('is ended twice, by those that build on others first', async () => {
      for (const area of ['vault', 'chat', 'channels']) removals.register(area, noting(area))
      await removals.note(leaver)
      removals.start()
      await waitFor('the end', async () => (await rows.count({})) === 0)
      assert.deepEqual(asked, ['channels', 'chat', 'vault', 'channels', 'chat', 'vault'])
    })

    it('is ended by the next start when the gateway died in between', async () => {
      let stuck = 0
      removals.register('chat', () => new Promise(() => (stuck += 1)))
      await removals.note(leaver)
      removals.start()
      await waitFor('the area to be asked', () => stuck > 0)
      const next = begin()
      next.register('chat', noting('chat'))
      next.start()
      await waitFor('the end', async () => (await rows.count({})) === 0)
      await next.stop()
      removals = next
      assert.deepEqual(asked, ['chat', 'chat'])
    })

    it('is tried again where an area fails, and does not hold back the others', async () => {
      let failures = 2
      removals.register('chat', noting('chat'))
      removals.register('channels', () => (failures-- > 0 ? Promise.reject(new Error('not now')) : Promise.resolve()))
      await removals.note(leaver)
      removals.start()
      await waitFor('the end', async () => (await rows.count({})) === 0)
      assert.equal(asked.length, 4)
    })

    it('stays while the user is there', async () => {
      existing.add('usr_1')
      removals.register('chat', noting('chat'))
      await removals.note(leaver)
      await removals.note({ tenant: null, userId: 'usr_2' })
      removals.start()
      await waitFor('the other one to be ended', async () => (await rows.count({})) === 1)
      assert.deepEqual(asked, ['chat', 'chat'])
      existing.delete('usr_1')
      await waitFor('the end', async () => (await rows.count({})) === 0)
    })

    it('counts from the newest removal, where an earlier one was not gone through with', async () => {
      existing.add('usr_1')
      const longAgo = new Date(Date.now() - 86_400_000).toISOString()
      await rows.insertOne({ id: 'usr_1', tenant: null, dueAt: longAgo, ended: false, createdAt: longAgo })
      removals.register('chat', noting('chat'))
      await removals.note(leaver)
      await removals.note({ tenant: null, userId: 'usr_2' })
      removals.start()
      await waitFor('the other one to be ended', () => asked.length === 2)
      existing.delete('usr_1')
      await waitFor('this one to be ended', () => asked.length === 4)
    })
  })
