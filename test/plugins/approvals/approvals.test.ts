import assert from 'node:assert/strict'
import { nodes } from '../../../plugins/nodes/contract.js'
import { login, startGateway, type TestGateway } from '../../support/gateway.js'
import { waitFor } from '../../support/waitFor.js'
import { answering, connectNode, pairNode, send, wait, type TestNode } from '../nodes/support.js'

const OTHER = { email: 'user@example.com', password: 'another long password' }

interface Shown {
  id: string
  state: string
  requestedBy: string
  agentId?: string
  sessionId?: string
}

describe('approvals', () => {
  let gateway: TestGateway
  let admin: string
  let userId: string
  let node: TestNode | undefined

  const start = async (options: Parameters<typeof startGateway>[0] = {}): Promise<void> => {
    gateway = await startGateway({ ...options, settings: { 'Service:Nodes:CriticalFor': 'everyone', ...options.settings } })
    admin = await login(gateway)
    userId = (await gateway.call('GET', '/auth/me', { token: admin })).body.id
  }
  const restart = async (settings: Record<string, string> = {}): Promise<void> => {
    await gateway.stop({ keep: true })
    await start({ dataDir: gateway.dataDir, settings })
  }
  beforeEach(async () => {
    await start()
    const token = await pairNode(gateway, admin, 'robot', ['input.control', 'system.info'])
    node = answering(await connectNode('socket.io', gateway, token))
  })
  afterEach(async () => {
    await node?.close()
    await gateway.stop()
  })

  const move = (params: Record<string, unknown> = { x: 1, y: 2 }): Promise<string> =>
    send(gateway, admin, 'robot', { command: 'input.move', params, timeoutMs: 20_000 })
  const pending = async (token = admin) => (await gateway.call('GET', '/approvals', { token })).body.items as Shown[]
  const history = async () => (await gateway.call('GET', '/approvals/history', { token: admin })).body.items as Shown[]
  const decide = (id: string, verdict: string, body?: unknown, token = admin) =>
    gateway.call('POST', `/approvals/${id}/${verdict}`, { token, ...(body === undefined ? {} : { body }) })

  it('keep a critical command from the node until it is approved', async () => {
    const commandId = await move()
    assert.equal((await wait(gateway, admin, commandId, 0)).status, 'awaiting_approval')
    const [approval, ...more] = await pending()
    assert.equal(more.length, 0)
    assert.deepEqual(
      { ...approval, id: undefined, createdAt: undefined, expiresAt: undefined },
      {
        id: undefined,
        createdAt: undefined,
        expiresAt: undefined,
        kind: 'node-command',
        title: 'input.move on robot',
        action: { name: 'input.move', params: { x: 1, y: 2 } },
        requestedBy: 'user',
        nodeId: 'robot',
        state: 'pending',
      },
    )
    // What is not critical does not wait for it.
    assert.equal((await wait(gateway, admin, await send(gateway, admin, 'robot', { command: 'system.info' }))).status, 'succeeded')
    assert.equal(node!.commands.length, 1)
    const approved = await decide(approval!.id, 'approve')
    assert.deepEqual([approved.status, approved.body.state, approved.body.decidedBy], [200, 'approved', userId])
    assert.deepEqual((await wait(gateway, admin, commandId)).result, { x: 1, y: 2 })
    assert.deepEqual(await pending(), [])
    assert.deepEqual((await history())[0], approved.body)
    assert.deepEqual((await gateway.call('GET', `/approvals/${approval!.id}`, { token: admin })).body, approved.body)
  })

  it('can be given with other parameters', async () => {
    const commandId = await move({ x: 1, $y: { 'a.b': 2 } })
    const [{ id }] = (await pending()) as [Shown]
    assert.equal((await decide(id, 'edit', {})).status, 422)
    const edited = await decide(id, 'edit', { params: { x: 9 } })
    assert.deepEqual(
      [edited.body.state, edited.body.action.params, edited.body.requestedParams],
      ['edited', { x: 9 }, { x: 1, $y: { 'a.b': 2 } }],
    )
    assert.deepEqual((await wait(gateway, admin, commandId)).result, { x: 9 })
  })

  it('can be refused: the command fails and never reaches the node', async () => {
    const commandId = await move()
    const waiting = wait(gateway, admin, commandId)
    const [{ id }] = (await pending()) as [Shown]
    const rejected = await decide(id, 'reject', { reason: 'not now' })
    assert.deepEqual([rejected.body.state, rejected.body.reason], ['rejected', 'not now'])
    const ended = await waiting
    assert.deepEqual([ended.status, ended.ok, ended.error.code], ['failed', false, 'approval_rejected'])
    assert.match(ended.error.message, /not now/)
    assert.equal(node!.commands.length, 0)
  })

  it('are decided once, also by many at once', async () => {
    const commandId = await move()
    const [{ id }] = (await pending()) as [Shown]
    const answers = await Promise.all([
      decide(id, 'approve'),
      decide(id, 'reject'),
      decide(id, 'edit', { params: {} }),
      decide(id, 'approve'),
    ])
    assert.deepEqual(answers.map(({ status }) => status).sort(), [200, 409, 409, 409])
    const again = await decide(id, 'approve')
    assert.deepEqual([again.status, again.body.error.code], [409, 'conflict'])
    await wait(gateway, admin, commandId)
    assert.ok(node!.commands.length <= 1)
    assert.equal((await decide('apr_none', 'approve')).status, 404)
  })

  it("are the owner's alone, and need ManageApprovals", async () => {
    await gateway.call('POST', '/admin/users', { token: admin, body: { ...OTHER, name: 'U', roles: ['Admin'] } })
    const other = await login(gateway, OTHER)
    await move()
    const [{ id }] = (await pending()) as [Shown]
    assert.deepEqual(await pending(other), [])
    assert.equal((await gateway.call('GET', `/approvals/${id}`, { token: other })).status, 404)
    assert.equal((await decide(id, 'approve', undefined, other)).status, 404)
    const { body } = await gateway.call('POST', '/auth/tokens', { token: admin, body: { name: 'x', permissions: ['ExecuteCommands'] } })
    assert.deepEqual((await decide(id, 'approve', undefined, body.token)).body.error.details, { permission: 'ManageApprovals' })
    assert.equal((await pending())[0]?.state, 'pending')
  })

  it('wait over a restart, and so does what was approved for a node that is away', async () => {
    await node!.close()
    const [first, second] = [await move(), await move({ second: true })]
    await restart()
    const waiting = await pending()
    assert.equal(waiting.length, 2)
    const of = (commandId: string): string => waiting.find(({ id }) => id === `apr_${commandId}`)?.id as string
    await decide(of(first), 'approve')
    await waitFor('the queue', async () => (await wait(gateway, admin, first, 0)).status === 'queued')
    await restart()
    await decide(of(second), 'reject')
    const token = (await gateway.call('POST', '/nodes/robot/rotate-token', { token: admin })).body.token as string
    node = answering(await connectNode('signalr', gateway, token))
    assert.equal((await wait(gateway, admin, first)).status, 'succeeded')
    assert.equal((await wait(gateway, admin, second)).status, 'failed')
  })

  it('end with their command, and with their time', async () => {
    const commandId = await move()
    const [{ id }] = (await pending()) as [Shown]
    await gateway.call('POST', `/nodes/commands/${commandId}/cancel`, { token: admin })
    assert.deepEqual(await pending(), [])
    const late = await decide(id, 'approve')
    assert.deepEqual([late.status, late.body.error.details.state], [409, 'expired'])
    await node!.close()
    await restart({ 'Service:Nodes:QueueTtl': '1' })
    const overdue = await move()
    const ended = await wait(gateway, admin, overdue)
    assert.equal(ended.ok, false)
    assert.equal((await decide(`apr_${overdue}`, 'approve')).status, 409)
    assert.equal((await history()).find(approval => approval.id === `apr_${overdue}`)?.state, 'expired')
  })

  it('are asked of the owner when an agent sends a critical command, and not when its user does', async () => {
    const token = (await gateway.call('POST', '/nodes/robot/rotate-token', { token: admin })).body.token as string
    await restart({ 'Service:Nodes:CriticalFor': 'agents' })
    await node!.close()
    node = answering(await connectNode('socket.io', gateway, token))
    assert.equal((await wait(gateway, admin, await move())).status, 'succeeded')
    const owner = { tenant: null, userId }
    const run = gateway
      .service(nodes)
      .run(owner, 'robot', { command: 'input.move', agentId: 'agt_1', sessionId: 'ses_1' }, new AbortController().signal)
    const [approval] = await waitFor('the approval', async () => {
      const items = await pending()
      return items.length === 1 ? items : undefined
    })
    assert.deepEqual([approval!.requestedBy, approval!.agentId, approval!.sessionId], ['agent', 'agt_1', 'ses_1'])
    await decide(approval!.id, 'approve')
    assert.equal((await run).status, 'succeeded')
    assert.deepEqual(node.commands.at(-1)?.originatedBy, { userId, agentId: 'agt_1', sessionId: 'ses_1' })
  })
})
