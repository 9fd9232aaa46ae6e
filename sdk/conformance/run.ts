import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, extname, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { Manifest } from '../manifest.js'
import { listFolder, readManifest, unpackPlugin } from '../pluginFolder.js'
import { protocolChecks } from '../protocolCheck.js'
import { startProcess } from '../testLaunch.js'
import { channelChecks } from './channelChecks.js'
import { Failure, SINK, Skip, type Bench, type Check, type CheckResult } from './check.js'
import { embeddingChecks } from './embeddingChecks.js'
import { extractorChecks } from './extractorChecks.js'
import { Ledger } from './ledger.js'
import { lifeChecks } from './lifeChecks.js'
import { messageChecks } from './messageChecks.js'
import { modelChecks } from './modelChecks.js'
import { outputChecks } from './outputChecks.js'
import { openSink, type Sink } from './sink.js'
import { Wire } from './wire.js'

/** Longest time of one check. */
const CHECK_MS = 120_000

/** How a plugin is tested. */
export interface ConformanceOptions {
  /**
   * A file: for an extractor a document that it reads, for a channel adapter a webhook of the platform as JSON,
   * `{"headers": {...}, "body": "..."}`, for a model provider a question as text.
   */
  sample?: string
  /** Values of the settings, of a channel or of a provider. `{sink}` stands for the address of a local server that accepts every request. */
  settings?: Readonly<Record<string, string>>
  /** Options for Node, for example `--experimental-permission`. Only for a program that runs in Node. */
  nodeArgs?: readonly string[]
  /** Milliseconds that any answer may take at most; the protocol's own limits where they are shorter. Default 60,000. */
  answerMs?: number
  /** Called as each check ends. */
  onResult?: (result: CheckResult) => void
}

/** What became of the checks. */
export interface ConformanceReport {
  plugin: { name: string; version: string; pluginInterface: string }
  checks: CheckResult[]
  /** No check failed. */
  passed: boolean
}

/**
 * Drives a plugin, written in any language, through everything that PROTOCOL.md says, with real processes outside any
 * sandbox. `target` is a built plugin's folder or a `.service-plugin` archive. Rejects when there is nothing to test: no
 * manifest, no program; what the plugin does wrong stands in the report.
 */
export async function testConformance(target: string | URL, options: ConformanceOptions = {}): Promise<ConformanceReport> {
  const temporary = await mkdtemp(join(tmpdir(), 'plugin-conformance-'))
  const sink = await openSink()
  try {
    const path = resolve(typeof target === 'string' ? target : fileURLToPath(target))
    const folder = (await stat(path)).isDirectory() ? path : await unpackPlugin(path, temporary)
    const manifest = await readManifest(folder)
    if (!manifest) throw new Error(`${folder} has no manifest.json: name a plugin's folder or a .service-plugin archive`)
    const { name, version, pluginInterface } = manifest
    const dataDir = join(temporary, 'data')
    const ledger = new Ledger(await protocolChecks(), { id: name, version, dataDir })
    const bench = new TestBench({ folder, manifest, temporary, dataDir, ledger, sink, options, before: await listFolder(folder) })
    const checks = await runAll(listChecks(manifest, ledger), bench, options.onResult ?? (() => undefined))
    return { plugin: { name, version, pluginInterface }, checks, passed: checks.every(({ outcome }) => outcome !== 'fail') }
  } finally {
    await sink.close()
    await rm(temporary, { recursive: true, force: true, maxRetries: 5 })
  }
}

const checksOfKind: Readonly<Record<string, readonly Check[]>> = {
  ChannelAdapter: channelChecks,
  DocumentExtractor: extractorChecks,
  ModelProvider: modelChecks,
  EmbeddingProvider: embeddingChecks,
}

function listChecks({ pluginInterface }: Manifest, ledger: Ledger): Check[] {
  return [...lifeChecks, ...messageChecks, ...(checksOfKind[pluginInterface] ?? []), ...outputChecks(ledger)]
}

/** A plugin that does not shake hands is not asked anything else. */
async function runAll(checks: readonly Check[], bench: TestBench, onResult: (result: CheckResult) => void): Promise<CheckResult[]> {
  const results: CheckResult[] = []
  for (const check of checks) {
    const speechless = results[0]?.outcome === 'fail'
    const result: CheckResult = speechless
      ? { name: check.name, expected: check.expected, outcome: 'skip', reason: `${results[0]?.name ?? ''} failed`, durationMs: 0 }
      : await runOne(check, bench)
    results.push(result)
    onResult(result)
  }
  await bench.close()
  return results
}

async function runOne({ name, expected, run }: Check, bench: TestBench): Promise<CheckResult> {
  const started = performance.now()
  const controller = new AbortController()
  const late = sleep(CHECK_MS, undefined, { signal: controller.signal }).then(
    () => Promise.reject(new Failure(`it was not over after ${CHECK_MS / 1000} s`)),
    () => undefined,
  )
  const done = (outcome: CheckResult['outcome'], reason?: string): CheckResult => ({
    ...{ name, expected, outcome, durationMs: Math.round(performance.now() - started) },
    ...(reason === undefined ? {} : { reason }),
  })
  try {
    await Promise.race([run(bench), late])
    return done('pass')
  } catch (error) {
    if (error instanceof Skip) return done('skip', error.message)
    await bench.forget()
    return done('fail', error instanceof Error ? error.message : String(error))
  } finally {
    controller.abort()
    await bench.endFresh()
  }
}

interface BenchParts {
  folder: string
  manifest: Manifest
  temporary: string
  dataDir: string
  ledger: Ledger
  sink: Sink
  options: ConformanceOptions
  before: Map<string, string>
}

class TestBench implements Bench {
  readonly manifest: Manifest
  readonly settings: Readonly<Record<string, string>>
  readonly missingSettings: readonly string[]
  readonly sample: string | undefined
  readonly #parts: BenchParts
  #shared: Wire | undefined
  readonly #fresh = new Set<Wire>()
  #lastDocument = 0

  constructor(parts: BenchParts) {
    const { manifest, options, sink } = parts
    this.#parts = parts
    this.manifest = manifest
    this.sample = options.sample
    const defaults = manifest.settings.flatMap(({ name, default: value }) => (value === undefined ? [] : [[name, value] as const]))
    const given = Object.entries(options.settings ?? {}).map(([name, value]) => [name, value === SINK ? sink.url : value] as const)
    const settings: Record<string, string> = Object.fromEntries([...defaults, ...given])
    this.settings = settings
    this.missingSettings = manifest.settings
      .filter(({ name, required }) => required && (settings[name] ?? '') === '')
      .map(({ name }) => name)
  }

  async ready(): Promise<Wire> {
    if (this.#shared && !this.#shared.ended) return this.#shared
    const wire = await this.#start()
    this.#shared = wire
    const { error } = await wire.handshake()
    if (error !== undefined) throw new Failure(`the handshake was refused: ${JSON.stringify(error)}`)
    return wire
  }

  async fresh(): Promise<Wire> {
    const wire = await this.#start()
    this.#fresh.add(wire)
    return wire
  }

  async document(name: string, content: string | Uint8Array): Promise<Record<string, unknown> & { outputDir: string }> {
    const place = join(this.#parts.temporary, `call-${++this.#lastDocument}`)
    const outputDir = join(place, 'output')
    await mkdir(outputDir, { recursive: true })
    const path = join(place, `document${extname(name)}`)
    await writeFile(path, content)
    const { size } = await stat(path)
    return { path, name: basename(name), extension: extname(name).toLowerCase(), mimeType: 'application/octet-stream', size, outputDir }
  }

  async changedFiles(): Promise<string[]> {
    const { before, folder } = this.#parts
    const after = await listFolder(folder)
    return [...new Set([...before.keys(), ...after.keys()])].filter(file => before.get(file) !== after.get(file)).sort()
  }

  /** Ends the shared process: after a failure nothing is known of its state. */
  async forget(): Promise<void> {
    const shared = this.#shared
    this.#shared = undefined
    await shared?.dispose()
  }

  async endFresh(): Promise<void> {
    await Promise.all([...this.#fresh].map(wire => wire.dispose()))
    this.#fresh.clear()
  }

  async close(): Promise<void> {
    await this.endFresh()
    await this.forget()
  }

  async #start(): Promise<Wire> {
    const { folder, manifest, dataDir, ledger, options } = this.#parts
    const env = { LANG: 'C.UTF-8', TZ: 'UTC', NODE_ENV: 'production' }
    return new Wire(
      await startProcess(folder, { dataDir, nodeArgs: options.nodeArgs ?? [], env, name: manifest.name }),
      ledger,
      options.answerMs ?? 60_000,
    )
  }
}

/** Reads a file of settings: a JSON object whose values are texts. */
export async function readSettingsFile(file: string): Promise<Record<string, string>> {
  const json = JSON.parse(await readFile(file, 'utf8')) as unknown
  const isRight = typeof json === 'object' && json !== null && Object.values(json).every(value => typeof value === 'string')
  if (!isRight || Array.isArray(json)) throw new Error('it must be an object of texts, for example {"apiToken": "abc"}')
  return json as Record<string, string>
}
