import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Desktop, missing } from '../examples/node/desktop.js'
import { NodeProgram } from '../examples/node/nodeProcess.js'
import { Speaker } from '../plugins/chat/conversation.js'
import { callTool, Endpoint, providerSettings, say } from '../plugins/models/endpoint.js'
import { untilStatus } from '../plugins/nodes/support.js'
import { ADMIN } from '../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../support/gatewayProcess.js'
import { waitFor } from '../support/waitFor.js'

const absent = missing('Xvfb', 'scrot')

describe('someone who has installed the reference node', () => {
  let folder: string
  let desktop: Desktop
  let gateway: GatewayProcess
  let endpoint: Endpoint
  let node: NodeProgram
  let me: Speaker

  const startGateway = async (at: Record<string, string>, models: Record<string, string>): Promise<void> => {
    const settings = { 'Service:Admin:Password': ADMIN.password, ...at, ...models }
    gateway = await launchGateway({ dataDir: join(folder, 'gateway'), settings })
    me = new Speaker(gateway, (await gateway.call('POST', '/auth/login', { body: ADMIN })).body.token as string)
  }
  before(async function () {
    if (absent.length > 0) this.skip()
    folder = await mkdtemp(join(tmpdir(), 'gateway-screenshot-'))
    desktop = new Desktop()
    await desktop.start()
    endpoint = await Endpoint.start()
    await startGateway({}, {})
    node = await NodeProgram.create(desktop.env)
    await node.pair(gateway, me.token, { id: 'desk', scopes: ['screen.capture', 'system.info'] })
    await node.run()
    await untilStatus(gateway, me.token, 'desk', 'online')
  })
  after(async () => {
    if (absent.length > 0) return
    await node.remove()
    await gateway.stop('SIGKILL')
    await endpoint.close()
    await desktop.stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  })

  const agent = async (): Promise<string> => {
    const { id } = await me.expect(201, 'POST', '/agents', { name: 'Hands' })
    await me.expect(200, 'PUT', `/agents/${id as string}/tools`, { tools: ['nodes.*'] })
    return id as string
  }
  /** The picture that a text names: a PNG with the size of the screen. */
  const assertPicture = async (text: string): Promise<void> => {
    const documentId = /doc_[A-Za-z0-9]+/.exec(text)?.[0]
    assert.ok(documentId, text)
    const answer = await fetch(`${gateway.url}/api/documents/${documentId}/download`, { headers: { Authorization: `Bearer ${me.token}` } })
    const picture = Buffer.from(await answer.arrayBuffer())
    assert.equal(picture.toString('latin1', 1, 4), 'PNG')
    assert.deepEqual([picture.readUInt32BE(16), picture.readUInt32BE(20)], [800, 600])
  }

  it('asks an agent for a screenshot, without any model', async () => {
    const { reply } = await me.ask('/run desk screen.capture', { agentId: await agent() })
    assert.match(reply, /^Done:/)
    await assertPicture(reply)
    assert.match(
      (await me.ask('/run desk shell.run {"program": "ls"}', { agentId: await agent() })).reply,
      /may not use nodes\.desk\.shell\.run/,
    )
    assert.match((await me.ask('/help', { agentId: await agent() })).reply, /\/run MACHINE COMMAND/)
  })

  it('asks a model for one, and gets it though the gateway is killed meanwhile', async () => {
    const at = { 'Service:Port': new URL(gateway.url).port }
    await gateway.stop()
    await startGateway(at, providerSettings(endpoint))
    // The node's waits between its attempts double, by chance and by its rules.
    await untilStatus(gateway, me.token, 'desk', 'online', 60_000)
    let isKilled = false
    endpoint.respond = ({ messages }, response) => {
      const last = messages.at(-1)
      if (last?.role !== 'tool') callTool(response, 'nodes_desk_screen_capture', { format: 'png' })
      // The first gateway dies with the picture in its hands.
      else if (isKilled) say(response, `Here it is: ${last.content}`)
      else {
        isKilled = true
        gateway.kill('SIGKILL')
      }
    }
    const { taskId, sessionId } = await me.send('A screenshot of my desk, please', { agentId: await agent() })
    await gateway.exited
    await startGateway(at, providerSettings(endpoint))
    await waitFor('the answer', async () => (await me.expect(200, 'GET', `/tasks/${taskId}`)).status === 'succeeded', 60_000)
    await assertPicture((await me.messages(sessionId)).at(-1)!.content)
    const { items } = await me.expect(200, 'GET', '/nodes/desk/commands')
    assert.equal((items as { command: string; createdAt: string }[]).filter(({ command }) => command === 'screen.capture').length, 2)
  })
})
