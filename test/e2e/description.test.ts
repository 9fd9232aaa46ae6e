import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { areas } from '../../plugins/index.js'
import { startGateway, type TestGateway } from '../support/gateway.js'

const run = promisify(execFile)

interface Description {
  tags: { name: string; description?: string }[]
  paths: Record<string, Record<string, { summary?: string; 'x-rate-limit'?: string; security?: unknown[] }>>
}

describe('the description of the whole API', () => {
  let gateway: TestGateway
  let text: string
  before(async () => {
    gateway = await startGateway()
    text = await (await fetch(`${gateway.url}/openapi/v1/openapi.json`)).text()
  })
  after(() => gateway.stop())

  it('is valid OpenAPI 3.1', async () => {
    const file = join(gateway.dataDir, 'openapi.json')
    await writeFile(file, text)
    const redocly = join(dirname(createRequire(import.meta.url).resolve('@redocly/cli/package.json')), 'bin', 'cli.js')
    const { stdout, stderr } = await run(process.execPath, [redocly, 'lint', '--extends', 'minimal', '--max-problems', '20', file], {
      env: { ...process.env, REDOCLY_TELEMETRY: 'off', REDOCLY_SUPPRESS_UPDATE_NOTICE: 'true' },
    }).catch((error: unknown) => error as { stdout: string; stderr: string })
    assert.match(stdout + stderr, /Your API description is valid/)
  })

  it('says of every operation what it does, who may call it and how often', () => {
    const { paths, tags } = JSON.parse(text) as Description
    for (const { name, description } of tags) assert.ok(description, `the tag ${name} has no description: say it in its plugin's tags`)
    for (const [path, operations] of Object.entries(paths)) {
      for (const [method, { summary, security, 'x-rate-limit': limit }] of Object.entries(operations)) {
        assert.ok(summary && security && limit, `${method} ${path}`)
      }
    }
    assert.ok(Object.keys(paths).length > 45)
  })

  it('has its areas in the order that a reader meets them in', () => {
    assert.deepEqual(
      (JSON.parse(text) as Description).tags.map(({ name }) => name),
      areas,
    )
  })
})
