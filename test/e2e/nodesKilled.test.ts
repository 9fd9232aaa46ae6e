import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { answering, connectNode, pairNode, SECRET, send, wait, type Protocol, type TestNode } from '../plugins/nodes/support.js'
import { ADMIN } from '../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../support/gatewayProcess.js'
import { waitFor } from '../support/waitFor.js'

const COMMANDS = 20

for (const protocol of ['socket.io', 'signalr'] satisfies Protocol[])
  describe(`commands over ${protocol}, when processes are killed`, () => {
    let dataDir: string
    let gateway: GatewayProcess
    let admin: string
    let at: Record<string, string> = {}
    let nodes: TestNode[]

    const start = async (): Promise<void> => {
      gateway = await launchGateway({ dataDir, settings: { 'Service:Admin:Password': ADMIN.password, ...at } })
      // Nodes come back to the address that they know.
      at = { 'Service:Port': new URL(gateway.url).port }
      admin = (await gateway.call('POST', '/auth/login', { body: ADMIN })).body.token as string
    }
    const kill = async (): Promise<void> => {
      gateway.kill('SIGKILL')
      await gateway.exited
    }
    beforeEach(async () => {
      dataDir = await mkdtemp(join(tmpdir(), 'gateway-nodes-'))
      at = {}
      nodes = []
      await start()
    })
    afterEach(async () => {
      await Promise.all(nodes.map(node => node.close()))
      await gateway.stop()
      await rm(dataDir, { recursive: true, force: true, maxRetries: 5 })
    })

    const connect = async (token: string, reconnects = false): Promise<TestNode> => {
      const node = await connectNode(protocol, gateway, token, { reconnects })
      nodes.push(node)
      return node
    }
    const enqueue = (): Promise<string[]> =>
      Promise.all(Array.from({ length: COMMANDS }, () => send(gateway, admin, 'robot', { command: 'system.info', timeoutMs: 120_000 })))
    const outcomes = async (ids: string[]): Promise<Set<string>> =>
      new Set(await Promise.all(ids.map(async id => (await wait(gateway, admin, id)).status as string)))

    it('are all done after the gateway died with them under way', async () => {
      const node = await connect(await pairNode(gateway, admin, 'robot', ['system.info']), true)
      const ids = await enqueue()
      await waitFor('the commands', () => node.commands.length === COMMANDS)
      // Half of the results arrive while the gateway dies.
      for (const { commandId } of node.commands.slice(0, COMMANDS / 2)) node.invoke('CommandResult', { commandId, ok: true, durationMs: 1 })
      await kill()
      node.onCommand = ({ commandId }) => node.invoke('CommandResult', { commandId, ok: true, durationMs: 1 })
      await start()
      assert.deepEqual(await outcomes(ids), new Set(['succeeded']))
      assert.deepEqual(new Set(node.commands.map(({ commandId }) => commandId)), new Set(ids))
    })

    it('are all done after the node died with them under way, and after both did', async () => {
      const token = await pairNode(gateway, admin, 'robot', ['system.info'])
      const first = await connect(token)
      const ids = await enqueue()
      await waitFor('the commands', () => first.commands.length === COMMANDS)
      await first.close()
      const second = await connect(token)
      await waitFor('the commands', () => second.commands.length === COMMANDS)
      await kill()
      await second.close()
      await start()
      answering(await connect(token))
      assert.deepEqual(await outcomes(ids), new Set(['succeeded']))
    })

    it('end in time when the node never comes back, and those of a pairing go on', async () => {
      const token = await pairNode(gateway, admin, 'robot', ['system.info'])
      const node = await connect(token)
      const id = await send(gateway, admin, 'robot', { command: 'system.info', timeoutMs: 1000 })
      await waitFor('the command', () => node.commands.length === 1)
      await gateway.call('POST', '/nodes/pairing/request', { body: { nodeId: 'other', pairingSecret: SECRET } })
      await gateway.call('POST', '/nodes/other/approve', { token: admin })
      await kill()
      await node.close()
      await start()
      assert.equal((await wait(gateway, admin, id)).status, 'timed_out')
      const paired = await gateway.call('POST', '/nodes/me/pair', { body: { nodeId: 'other', pairingSecret: SECRET } })
      assert.equal((await gateway.call('GET', '/nodes/me', { token: paired.body.token as string })).status, 200)
    })
  })
