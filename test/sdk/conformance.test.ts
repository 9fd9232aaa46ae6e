import assert from 'node:assert/strict'
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { cp, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import PQueue from 'p-queue'
import { pidsWith } from '../host/support.js'
import { waitFor } from '../support/waitFor.js'
import { testConformance, type ConformanceReport } from '../../sdk/testing.js'

const root = fileURLToPath(new URL('../..', import.meta.url))
const program = join(root, 'test/fixtures/plugins/faulty/faulty.mjs')
/** Runs of the kit at the same time. */
const AT_ONCE = 6

interface Outcome {
  code: number | null
  stdout: string
  stderr: string
}

const service = (...args: string[]): Promise<Outcome> =>
  new Promise(resolve => {
    const child = execFile(process.execPath, [join(root, 'sdk/bin/service.js'), 'dev', ...args], (_error, stdout, stderr) =>
      resolve({ code: child.exitCode, stdout, stderr }),
    )
  })

describe('the conformance kit', () => {
  let folder: string
  let sample: string

  const write = async (fault: string, { name = 'faulty', pluginInterface = 'DocumentExtractor', place = folder } = {}): Promise<string> => {
    const plugin = join(place, name)
    await mkdir(plugin, { recursive: true })
    await cp(program, join(plugin, `${name}.mjs`))
    const kind = { pluginInterface, ...(pluginInterface === 'DocumentExtractor' ? { supportedExtensions: ['.txt'] } : {}) }
    const manifest = { name, version: '1.0.0', ...kind, metadata: { fault } }
    await writeFile(join(plugin, 'manifest.json'), JSON.stringify(manifest))
    return plugin
  }
  const failed = ({ checks }: ConformanceReport): string[] => checks.filter(({ outcome }) => outcome === 'fail').map(({ name }) => name)

  beforeEach(async () => {
    folder = await mkdtemp(join(tmpdir(), 'conformance-'))
    sample = join(folder, 'sample.txt')
    await writeFile(sample, 'a sample')
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  it('passes a plugin without faults, skipping nothing', async () => {
    const report = await testConformance(await write('none'), { sample })
    assert.deepEqual(
      report.checks.filter(({ outcome }) => outcome !== 'pass'),
      [],
    )
    assert.equal(report.passed, true)
    assert.deepEqual(report.plugin, { name: 'faulty', version: '1.0.0', pluginInterface: 'DocumentExtractor' })
  })

  /** What each fault must be found as, and by no other name. Those that are waited for longest come first. */
  const faults: Record<string, string[]> = {
    'chunks-as-lines': ['messages/pieces', 'messages/large', 'messages/oversized'],
    'ignores-unknown-methods': ['messages/unknown-method', 'messages/foreign-method'],
    'outlives-its-gateway': ['life/end-of-input', 'life/end-of-input-early'],
    'first-version': ['handshake/newer-gateway', 'handshake/no-common-version'],
    'second-handshake': ['handshake/once'],
    'early-code': ['handshake/first'],
    'wrong-exit-code': ['life/shutdown'],
    'never-ends': ['life/shutdown'],
    'answers-notifications': ['output/one-answer-each'],
    'answers-twice': ['output/one-answer-each'],
    'crashes-on-wrong-params': ['messages/wrong-params'],
    'dies-of-stray-input': ['messages/stray-input'],
    'keeps-everything': ['messages/oversized'],
    prints: ['output/only-messages'],
    'writes-beside-itself': ['output/own-folder'],
    'internal-error': ['extractor/empty'],
    'text-elsewhere': ['extractor/sample', 'extractor/parallel', 'extractor/cancel'],
    'no-text': ['extractor/sample', 'extractor/parallel', 'extractor/cancel'],
  }
  describe('finds', () => {
    const reports = new Map<string, Promise<ConformanceReport>>()
    let places: string

    // Most of a run is waiting for what does not come, so several go on at once.
    before(async () => {
      places = await mkdtemp(join(tmpdir(), 'conformance-'))
      const document = join(places, 'sample.txt')
      await writeFile(document, 'a sample')
      const queue = new PQueue({ concurrency: AT_ONCE })
      for (const fault of Object.keys(faults)) {
        const report = queue.add(async () =>
          testConformance(await write(fault, { place: join(places, fault) }), { sample: document, answerMs: 5000 }),
        )
        report.catch(() => undefined)
        reports.set(fault, report)
      }
    })
    after(async () => {
      await Promise.allSettled(reports.values())
      await rm(places, { recursive: true, force: true })
    })

    for (const [fault, names] of Object.entries(faults)) {
      it(`${fault} as ${names.join(', ')}`, async () => {
        const report = (await reports.get(fault))!
        assert.deepEqual(failed(report), names, JSON.stringify(report.checks.filter(({ outcome }) => outcome === 'fail')))
        assert.equal(report.passed, false)
      })
    }
  })

  /** The same of providers, several at once: each is another check's business. */
  const providerFaults: [pluginInterface: string, faults: string, names: string[]][] = [
    [
      'ModelProvider',
      'model-names tools-despite-none unknown-model other-answer',
      ['model/list', 'model/no-tools', 'model/unknown-model', 'output/schema'],
    ],
    ['ModelProvider', 'blank-answer', ['answer', 'no-tools', 'tool-result', 'parallel', 'cancel'].map(name => `model/${name}`)],
    ['EmbeddingProvider', 'other-dimension turning-vectors', ['embedding/purposes', 'embedding/same']],
    ['EmbeddingProvider', 'too-few no-floats zeros', ['embedding/purposes', 'embedding/same', 'embedding/batch']],
  ]
  for (const [pluginInterface, faults, names] of providerFaults)
    it(`finds in ${pluginInterface === 'ModelProvider' ? 'a model' : 'an embedding'} provider ${faults} as ${names.join(', ')}`, async () => {
      const report = await testConformance(await write(faults, { pluginInterface }))
      assert.deepEqual(failed(report), names, JSON.stringify(report.checks.filter(({ outcome }) => outcome === 'fail')))
      assert.deepEqual(
        report.checks.filter(({ outcome }) => outcome === 'skip'),
        [],
      )
    })

  it('leaves out what a provider refuses that lacks its settings, and says which', async () => {
    const plugin = await write('none', { pluginInterface: 'ModelProvider' })
    const manifest = JSON.parse(await readFile(join(plugin, 'manifest.json'), 'utf8')) as object
    await writeFile(join(plugin, 'manifest.json'), JSON.stringify({ ...manifest, settings: [{ name: 'apiKey', required: true }] }))
    const { checks, passed } = await testConformance(plugin)
    assert.ok(passed)
    const skipped = checks.filter(({ outcome }) => outcome === 'skip')
    assert.ok(
      skipped.length > 4 &&
        skipped.every(({ name, reason }) => name.startsWith('model/') && /the settings apiKey need values/.test(reason ?? '')),
    )
  })

  it('asks nothing more of a plugin that does not shake hands, and keeps its last words', async () => {
    const wrong = await testConformance(await write('own-version'), { sample })
    assert.deepEqual(failed(wrong), ['handshake/version'])
    assert.match(wrong.checks[0]?.reason ?? '', /2026-11-01 was offered, it chose 1999-01-01/)
    assert.ok(wrong.checks.slice(1).every(({ outcome, reason }) => outcome === 'skip' && reason === 'handshake/version failed'))
    const plugin = await write('none')
    await writeFile(join(plugin, 'faulty.mjs'), "console.error('no configuration found'); process.exit(3)")
    const dead = await testConformance(plugin)
    assert.match(
      dead.checks[0]?.reason ?? '',
      /it ended \(code 3\) instead of answering plugin\.initialize; its last words: no configuration found/,
    )
  })

  it('says what to give where a check needs a sample or settings', async () => {
    const report = await testConformance(await write('none'))
    assert.deepEqual(
      report.checks.filter(({ outcome }) => outcome === 'skip').map(({ name, reason }) => `${name}: ${reason ?? ''}`),
      ['sample', 'parallel', 'cancel'].map(name => `extractor/${name}: give a document that it reads: --sample FILE.txt`),
    )
    const channel = await testConformance(join(root, 'examples/plugins/http-channel'))
    assert.match(
      channel.checks.find(({ name }) => name === 'channel/connect')?.reason ?? '',
      /the settings secret, callbackUrl need values/,
    )
    assert.equal(channel.passed, true)
  })

  it('refuses what is no plugin', async () => {
    await assert.rejects(testConformance(folder), /has no manifest\.json/)
    await assert.rejects(testConformance(sample), /sample\.txt cannot be read/)
  })

  describe('as service dev test', () => {
    it('prints each check by name and ends with 0', async () => {
      const { code, stdout, stderr } = await service('test', await write('none'), '--sample', sample)
      assert.deepEqual([code, stderr], [0, ''])
      assert.match(stdout, /^pass {2}handshake\/version +answers plugin\.initialize with a version that was offered$/m)
      assert.match(stdout, /^faulty 1\.0\.0 \(DocumentExtractor\): \d+ passed, 0 failed, 0 skipped$/m)
    })

    it('says which check failed, and why, and ends with 1', async () => {
      const { code, stdout } = await service('test', await write('prints'), '--sample', sample)
      assert.equal(code, 1)
      assert.match(stdout, /^FAIL {2}output\/only-messages .*\n {6}but lines that are no messages: .*reading sample\.txt/m)
    })

    it('leaves no plugin behind when it is interrupted, not even one that ignores the end of its stdin', async function () {
      if (!existsSync('/proc/self/cmdline')) this.skip()
      const plugin = join(await write('outlives-its-gateway'), 'faulty.mjs')
      const child = spawn(process.execPath, [join(root, 'sdk/bin/service.js'), 'dev', 'test', join(folder, 'faulty')])
      await waitFor('a process of the plugin', async () => (await pidsWith(plugin)).length > 0)
      child.kill('SIGINT')
      assert.deepEqual(await once(child, 'exit'), [130, null])
      await waitFor('its end', async () => (await pidsWith(plugin)).length === 0)
    })

    it('takes an archive, and builds a source first', async () => {
      const plugin = await write('none', { name: 'packed' })
      const manifest = JSON.parse(await readFile(join(plugin, 'manifest.json'), 'utf8')) as object
      await mkdir(join(plugin, 'src'))
      await cp(program, join(plugin, 'src/index.mjs'))
      await rm(join(plugin, 'packed.mjs'))
      // A bundle lies in publish/, one folder below the manifest.
      const source = await readFile(program, 'utf8')
      await writeFile(join(plugin, 'src/index.mjs'), source.replace("join(here, 'manifest.json')", "join(here, '../manifest.json')"))
      const described = { ...manifest, description: 'd', entrypoint: 'src/index.mjs' }
      await writeFile(join(plugin, 'manifest.json'), JSON.stringify(described))
      const built = await service('test', plugin, '--sample', sample)
      assert.equal(built.code, 0, built.stdout + built.stderr)
      // In an archive it lies beside it.
      await writeFile(join(plugin, 'src/index.mjs'), source)
      const archive = join(folder, 'packed-1.0.0.service-plugin')
      assert.equal((await service('build', plugin, '--out', archive)).code, 0)
      const packed = await service('test', archive, '--sample', sample)
      assert.equal(packed.code, 0, packed.stdout + packed.stderr)
    })

    it('says what is missing', async () => {
      assert.match((await service('test', join(folder, 'nowhere'))).stderr, /does not exist: name a plugin's folder/)
      assert.match((await service('test', await write('none'), '--sample', 'nowhere.txt')).stderr, /The sample nowhere\.txt does not exist/)
      await writeFile(join(folder, 'settings.json'), '{"a": 1}')
      const settings = await service('test', await write('none'), '--settings', join(folder, 'settings.json'))
      assert.match(settings.stderr, /settings\.json: it must be an object of texts/)
    })
  })
})
