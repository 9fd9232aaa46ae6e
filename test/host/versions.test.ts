import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Launch } from '../../core/host/launch/tier.js'
import { defaultLimits } from '../../core/host/policy.js'
import { PluginProcess } from '../../core/host/process.js'
import { PROTOCOL_VERSIONS } from '../../sdk/protocol.js'

const PLUGIN = fileURLToPath(new URL('../../examples/plugins/subtitles/publish/subtitles.cjs', import.meta.url))
const [CURRENT = ''] = PROTOCOL_VERSIONS
const NEXT = '2999-01-01'

describe('the host, during an upgrade of the protocol', () => {
  let dataDir: string
  const start = async (protocolVersions: readonly string[]): Promise<PluginProcess> => {
    const launch: Launch = {
      ...{ command: process.execPath, args: [PLUGIN], env: {}, cwd: dataDir },
      ...{ dataDirInPlugin: dataDir, exchangeDirInPlugin: dataDir, enforced: [], open: [] },
    }
    const plugin = { id: 'subtitles', version: '1.0.0' }
    return PluginProcess.start(launch, {
      plugin,
      limits: defaultLimits,
      handlers: {},
      listeners: {},
      onLine: () => undefined,
      protocolVersions,
    })
  }

  before(async () => {
    dataDir = await mkdtemp(join(tmpdir(), 'versions-'))
  })
  after(() => rm(dataDir, { recursive: true, force: true }))

  it('speaks the version before the newest with a plugin that knows no newer one', async () => {
    const running = await start([NEXT, CURRENT])
    assert.equal(running.protocolVersion, CURRENT)
    assert.deepEqual(await running.request('plugin.ping', {}), {})
    await running.stop('the test is over')
  })

  it('refuses a plugin that is older than both, naming what each side speaks', async () => {
    await assert.rejects(start(['2999-06-01', NEXT]), new RegExp(`No common protocol version: .*${NEXT}.*this plugin ${CURRENT}`))
  })
})
