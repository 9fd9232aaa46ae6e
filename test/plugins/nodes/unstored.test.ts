import assert from 'node:assert/strict'
import { join } from 'node:path'
import { openDatabase } from '../../../core/store/sqlite/driver.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, send, wait, type Protocol, type TestNode } from './support.js'

/** Results that nobody waits to hear about, as most clients send them. */
describe('a result that the store does not take', () => {
  let gateway: TestGateway
  let admin: string
  let node: TestNode | undefined

  before(async () => {
    gateway = await startGateway()
    admin = await login(gateway)
  })
  afterEach(async () => {
    mend()
    await node?.close()
  })
  after(() => gateway.stop())

  const change = (sql: string): void => {
    const db = openDatabase(join(gateway.dataDir, 'store.db'), 5000)
    db.exec(sql)
    db.close()
  }
  /** No command can end from now on. */
  const breakStore = (): void =>
    change(
      `CREATE TRIGGER broken BEFORE UPDATE ON "c:nodes.commands" WHEN json_extract(NEW.doc, '$.endedBy') = 'node' BEGIN SELECT RAISE(FAIL, 'the store is broken by a test'); END`,
    )
  const mend = (): void => change('DROP TRIGGER IF EXISTS broken')
  const nameOf = (protocol: Protocol): string => protocol.replace('.', '')

  const protocols: Protocol[] = ['socket.io', 'signalr']
  for (const protocol of protocols) {
    it(`for a moment is stored then, over ${protocol}`, async () => {
      node = answering(await connectNode(protocol, gateway, await pairNode(gateway, admin, `moment-${nameOf(protocol)}`, ['system.info'])))
      breakStore()
      const commandId = await send(gateway, admin, `moment-${nameOf(protocol)}`, { command: 'system.info', params: { a: 1 } })
      await waitFor('the first attempt', () =>
        gateway
          .logged()
          .split('\n')
          .some(line => line.includes(commandId) && line.includes('tried again')),
      )
      mend()
      assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
      assert.equal(node.commands.length, 1)
      assert.ok(node.isOpen())
    })

    it(`for longer is asked for again over the next connection, over ${protocol}`, async () => {
      const token = await pairNode(gateway, admin, `long-${nameOf(protocol)}`, ['system.info'])
      node = answering(await connectNode(protocol, gateway, token, { reconnects: true }))
      breakStore()
      const commandId = await send(gateway, admin, `long-${nameOf(protocol)}`, {
        command: 'system.info',
        params: { a: 1 },
        timeoutMs: 25_000,
      })
      await waitFor('the connection to end', () => node?.ended() !== undefined)
      mend()
      assert.equal((await wait(gateway, admin, commandId)).status, 'succeeded')
      assert.deepEqual([...new Set(node.commands.map(command => command.commandId))], [commandId])
      assert.ok(node.commands.length >= 2)
      assert.match(gateway.logged(), /the connection of a node was ended: store_unavailable/)
    })
  }

  it('as far as the gateway hears, but did, is known to whoever waits as soon as the node says it again', async () => {
    node = await connectNode('socket.io', gateway, await pairNode(gateway, admin, 'unheard', ['system.info']))
    const options = { token: admin, body: { command: 'system.info' }, headers: { Prefer: 'wait=60' } }
    const waiting = gateway.call('POST', '/nodes/unheard/commands', options)
    await waitFor('the command', () => node?.commands.length === 1)
    const commandId = node.commands[0]?.commandId ?? ''
    change(
      `UPDATE "c:nodes.commands" SET doc = json_remove(json_set(doc, '$.status', 'succeeded', '$.endedBy', 'node', '$.ok', json('true')), '$.dueAt') WHERE json_extract(doc, '$.id') = '${commandId}'`,
    )
    answering(node)
    assert.equal((await waiting).body.status, 'succeeded')
    // Half as long as it would wait without hearing of it.
  }).timeout(30_000)
})
