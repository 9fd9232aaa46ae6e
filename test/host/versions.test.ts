import assert from 'node:assert/strict'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import type { Launch } from '../../core/host/launch/tier.js'
import { defaultLimits, Unfit } from '../../core/host/policy.js'
import { PluginProcess } from '../../core/host/process.js'
import { PROTOCOL_VERSIONS } from '../../sdk/protocol.js'

const PLUGIN = fileURLToPath(new URL('../../examples/plugins/subtitles/publish/subtitles.cjs', import.meta.url))
const VERSIONED = fileURLToPath(new URL('../sdk/fixtures/versionedPlugin.ts', import.meta.url))
const TSX = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const [CURRENT = ''] = PROTOCOL_VERSIONS
const NEXT = '2999-01-01'
const AFTER_NEXT = '2999-06-01'

describe('the host, during an upgrade of the protocol', () => {
  let dataDir: string
  const start = async (protocolVersions: readonly string[], args: readonly string[] = [PLUGIN]): Promise<PluginProcess> => {
    const launch: Launch = {
      ...{ command: process.execPath, args: [...args], env: {}, cwd: dataDir },
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
    await assert.rejects(start([AFTER_NEXT, NEXT]), (error: Error) => {
      assert.match(error.message, new RegExp(`No common protocol version: .*${NEXT}.*this plugin ${CURRENT}`))
      return error instanceof Unfit
    })
  })

  for (const [which, host, plugin, chosen] of [
    ['speaks the newer of two with a plugin that knows both', [NEXT, CURRENT], [NEXT, CURRENT], NEXT],
    ['speaks the only one it knows with a plugin that was upgraded before it', [CURRENT], [NEXT, CURRENT], CURRENT],
    ['speaks the one that is common, although each side has a newer or an older one', [NEXT, CURRENT], [AFTER_NEXT, NEXT], NEXT],
    ['speaks the one that is common, also when the gateway is the newer', [AFTER_NEXT, NEXT], [NEXT, CURRENT], NEXT],
  ] as const)
    it(which, async () => {
      const running = await start(host, ['--import', TSX, VERSIONED, ...plugin])
      assert.equal(running.protocolVersion, chosen)
      assert.deepEqual(await running.request('plugin.ping', {}), {})
      await running.stop('the test is over')
    })

  it('speaks the last two versions at most, newest first, and says so wherever it is written', async () => {
    assert.ok(PROTOCOL_VERSIONS.length >= 1 && PROTOCOL_VERSIONS.length <= 2)
    assert.deepEqual(PROTOCOL_VERSIONS, [...PROTOCOL_VERSIONS].sort().reverse())
    const guide = await readFile(new URL('../../sdk/PROTOCOL.md', import.meta.url), 'utf8')
    assert.match(guide, new RegExp(`^Version \`${CURRENT}\``, 'm'))
    for (const version of PROTOCOL_VERSIONS) assert.ok(guide.includes(version), `PROTOCOL.md does not name ${version}`)
  })
})
