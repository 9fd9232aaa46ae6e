import assert from 'node:assert/strict'
import { mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { send, untilStatus, wait } from '../../plugins/nodes/support.js'
import { Proxy } from '../../sdk/node/support.js'
import { ADMIN } from '../../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../../support/gatewayProcess.js'
import { waitFor } from '../../support/waitFor.js'
import { NodeProgram } from './nodeProcess.js'

const SCOPES = ['shell.run', 'system.info', 'file.list']

describe('the reference node as a program', () => {
  let folder: string
  let gateway: GatewayProcess
  let admin: string
  let at: Record<string, string>
  let node: NodeProgram

  const startGateway = async (): Promise<void> => {
    const settings = { 'Service:Admin:Password': ADMIN.password, 'Service:Nodes:PollInterval': '0.1', ...at }
    gateway = await launchGateway({ dataDir: join(folder, 'gateway'), settings })
    at = { 'Service:Port': new URL(gateway.url).port }
    admin = (await gateway.call('POST', '/auth/login', { body: ADMIN })).body.token as string
  }
  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'node-e2e-'))
    at = {}
    await startGateway()
    node = await NodeProgram.create()
  })
  afterEach(async () => {
    await node.remove()
    await gateway.stop('SIGKILL')
    await rm(folder, { recursive: true, force: true, maxRetries: 5 })
  })

  const started = (): string => join(folder, 'started')
  /** Says that it has started, a line each time, and lasts until `release` is called. */
  const held = async (): Promise<string> => {
    const script = `echo x >> ${started()}; while [ ! -e ${folder}/go ]; do sleep 0.02; done; echo done`
    return send(gateway, admin, 'machine', { command: 'shell.run', params: { program: 'sh', args: ['-c', script] }, timeoutMs: 120_000 })
  }
  const release = (): Promise<void> => writeFile(join(folder, 'go'), '')
  const starts = async (): Promise<number> => (await readFile(started(), 'utf8').catch(() => '')).length / 2
  const adopt = async (): Promise<void> => {
    await node.adopt(gateway, admin, { id: 'machine', scopes: SCOPES })
    await node.call(['scopes', '--allow', SCOPES.join(',')])
  }

  it('pairs, shows where it stands, runs, and stops', async () => {
    assert.match((await node.call(['status'])).stdout, /not paired/)
    await node.pair(gateway, admin, { id: 'machine', scopes: SCOPES, options: ['--label', 'A machine', '--root', folder] })
    assert.match((await node.call(['pair', gateway.url])).stderr, /paired .* already/)
    const { stdout } = await node.call(['status', '--json'])
    const { state, nodeId, gateway: answer, roots } = JSON.parse(stdout)
    assert.deepEqual([state, nodeId, answer.scopes, roots], ['paired', 'machine', SCOPES, [folder]])
    assert.doesNotMatch(stdout, /token/i)
    await node.run()
    assert.equal((await gateway.call('GET', '/nodes/machine', { token: admin })).body.name, 'A machine')
    const id = await send(gateway, admin, 'machine', { command: 'system.info' })
    assert.equal((await wait(gateway, admin, id)).result.platform, process.platform)
    assert.equal(await node.stop(), 0)
    await untilStatus(gateway, admin, 'machine', 'offline')
    // The token is in one file, for its owner alone.
    const token = JSON.parse(await readFile(join(node.directory, 'identity.json'), 'utf8')).token as string
    for (const name of await readdir(node.directory)) {
      assert.equal((await stat(join(node.directory, name))).mode & 0o077, 0, name)
      if (name !== 'identity.json') assert.ok(!(await readFile(join(node.directory, name), 'utf8')).includes(token))
    }
    assert.ok(!node.output.includes(token))
  })

  it('takes up what its user allows while it runs, and nothing that only the gateway allows', async () => {
    await node.adopt(gateway, admin, { id: 'machine', scopes: SCOPES })
    await node.run()
    const tryIt = async () => wait(gateway, admin, await send(gateway, admin, 'machine', { command: 'file.list' }))
    const refused = await tryIt()
    assert.deepEqual([refused.error.code, refused.error.details.by], ['not_authorized', 'node'])
    await node.call(['scopes', '--allow', 'file.*', '--root', folder])
    const { result } = await waitFor('the scope', async () => {
      const outcome = await tryIt()
      return outcome.ok ? outcome : undefined
    })
    assert.equal(result.path, folder)
    assert.match((await node.call(['scopes', '--deny', 'file.*'])).stdout, /file\.list +denied/)
    await waitFor('the refusal', async () => (await tryIt()).error?.code === 'not_authorized')
    assert.equal((await node.call(['scopes', '--allow', 'rm -rf'])).code, 2)
  })

  it('takes up a rotated token from standard input, and ends with 3 when it is revoked', async () => {
    await adopt()
    await node.run()
    const { token } = (await gateway.call('POST', '/nodes/machine/rotate-token', { token: admin })).body
    assert.equal((await node.call(['token'], 'other.secret')).code, 1)
    assert.equal((await node.call(['token'], `${token}\n`)).code, 0)
    await waitFor('the node to connect anew', () => node.output.match(/^online over the hub/gm)?.length === 2)
    const exited = node.exited
    await gateway.call('POST', '/nodes/machine/revoke', { token: admin })
    assert.equal(await exited, 3)
    assert.match(node.output, /revoked: pair this machine anew/)
    assert.match((await node.call(['status'])).stdout, /not paired any more/)
    await node.pair(gateway, admin, { id: 'machine', scopes: SCOPES })
  })

  it('killed while a command runs, does not run it twice: one result says that it was interrupted', async () => {
    await adopt()
    await node.run()
    const id = await held()
    await waitFor('the command', async () => (await starts()) === 1)
    await node.stop('SIGKILL')
    await node.run()
    const outcome = await wait(gateway, admin, id)
    assert.deepEqual([outcome.status, outcome.error.code, outcome.error.details], ['failed', 'internal_error', { interrupted: true }])
    assert.equal(await starts(), 1)
    // What the process before left behind ends too, and changes nothing.
    await release()
    assert.equal((await wait(gateway, admin, await send(gateway, admin, 'machine', { command: 'system.info' }))).status, 'succeeded')
    assert.equal((await wait(gateway, admin, id)).status, 'failed')
  })

  it('delivers the result of a command that ran while the gateway was killed and started again', async () => {
    await adopt()
    await node.run()
    const ids = [await held(), await held()]
    await waitFor('the commands', async () => (await starts()) === 2)
    gateway.kill('SIGKILL')
    await gateway.exited
    await waitFor('the node to notice', () => /^offline/m.test(node.output))
    await release()
    await startGateway()
    for (const id of ids) {
      const outcome = await wait(gateway, admin, id)
      assert.deepEqual([outcome.status, outcome.result?.stdout], ['succeeded', 'done\n'])
    }
    assert.equal(await starts(), 2)
  })

  it('delivers the result when both are killed, and the command ended while the gateway was away', async () => {
    await adopt()
    await node.run()
    const id = await held()
    await waitFor('the command', async () => (await starts()) === 1)
    gateway.kill('SIGKILL')
    await gateway.exited
    await release()
    await waitFor('its result in the journal', async () =>
      (await readFile(join(node.directory, 'commands.jsonl'), 'utf8')).includes('"done\\n"'),
    )
    await node.stop('SIGKILL')
    await startGateway()
    await node.run()
    assert.equal((await wait(gateway, admin, id)).result.stdout, 'done\n')
    assert.equal(await starts(), 1)
  })

  it('polls while a proxy refuses WebSockets, and comes back to the hub, each command run once', async () => {
    const proxy = await new Proxy(gateway.url).listen()
    try {
      await adopt()
      const file = join(node.directory, 'identity.json')
      await writeFile(file, JSON.stringify({ ...JSON.parse(await readFile(file, 'utf8')), gatewayUrl: proxy.url }))
      proxy.letsWebSocketsThrough = false
      await node.run('--hub-retry', '0.2')
      assert.match(node.output, /^online over polling$/m)
      const id = await held()
      await waitFor('the command', async () => (await starts()) === 1)
      assert.equal((await wait(gateway, admin, await send(gateway, admin, 'machine', { command: 'system.info' }))).status, 'succeeded')
      proxy.letsWebSocketsThrough = true
      await waitFor('the hub', () => /^online over the hub$/m.test(node.output))
      await release()
      assert.equal((await wait(gateway, admin, id)).status, 'succeeded')
      assert.equal(await starts(), 1)
      await node.stop()
    } finally {
      await proxy.close()
    }
  })

  it('says how it is used', async () => {
    const help = await node.call(['--help'])
    assert.equal(help.code, 0)
    for (const command of ['pair', 'run', 'status', 'scopes', 'token']) assert.match(help.stdout, new RegExp(`^ {2}${command}\\b`, 'm'))
    const wrong = await node.call(['run', '--root', '/'])
    assert.equal(wrong.code, 2)
    assert.match(wrong.stderr, /run has no option --root/)
    const unpaired = await node.call(['run'])
    assert.equal(unpaired.code, 1)
    assert.match(unpaired.stderr, /not paired/)
  })
})
