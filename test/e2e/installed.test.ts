import assert from 'node:assert/strict'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pluginArchive } from '../host/archives.js'
import { ADMIN, login } from '../support/gateway.js'
import { launchGateway, type GatewayProcess } from '../support/gatewayProcess.js'
import { waitFor } from '../support/waitFor.js'

describe('a gateway that is killed while a plugin is installed', () => {
  let dataDir: string
  let gateway: GatewayProcess
  let token: string
  const start = async (): Promise<void> => {
    gateway = await launchGateway({
      dataDir,
      settings: {
        'Service:Plugins:Enabled': 'true',
        'Service:Admin:Email': ADMIN.email,
        'Service:Admin:Password': ADMIN.password,
      },
    })
    token = await login(gateway)
  }
  const install = async (version: string) => {
    const body = new FormData()
    body.append('file', new Blob([await pluginArchive({ name: 'some', version })]), 'some.service-plugin')
    return gateway.call('POST', '/plugins/install', { token, body })
  }
  const serving = () =>
    waitFor('the plugin to serve', async () => {
      const { body } = await gateway.call('GET', '/plugins/some', { token })
      return body?.state === 'ready' && body.version === body.installation.current.version ? (body.version as string) : undefined
    })

  beforeEach(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'installed-test-'))
    await start()
  })
  afterEach(async () => {
    await gateway.stop()
    await rm(dataDir, { recursive: true, force: true })
  })

  it('runs the old or the new version afterwards, and an acknowledged one for sure', async () => {
    const first = await install('1.0.0')
    assert.equal(first.status, 201, first.text)
    assert.equal(await serving(), '1.0.0')
    let running = 1
    for (const killAfter of [5, 25, 60, 150]) {
      const next = running + 1
      const answer = install(`${String(next)}.0.0`).catch(() => undefined)
      await new Promise(resolve => setTimeout(resolve, killAfter))
      gateway.kill('SIGKILL')
      await gateway.exited
      const acknowledged = (await answer)?.status === 201
      await start()
      const now = parseInt(await serving())
      assert.ok(now === next || (now === running && !acknowledged), `${String(now)} runs after ${String(running)}`)
      running = now
      const left = await readdir(join(dataDir, 'plugin-installs/some'))
      assert.ok(left.length <= 3 && left.includes('installed.json'), left.join(' '))
    }
  })
})
