import { cp, mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { PluginHostCore } from '../../core/host/host.js'
import type { HostSettings } from '../../core/host/hostOptions.js'
import { findDeno } from '../../core/host/launch/deno.js'
import type { TierName } from '../../core/host/launch/tier.js'
import type { HostLimits } from '../../core/host/policy.js'
import type { Supervisor } from '../../core/host/supervisor.js'
import { createLog } from '../../core/log.js'
import { waitFor } from '../support/waitFor.js'

const FIXTURE = fileURLToPath(new URL('../fixtures/plugins/misbehaving', import.meta.url))

export const hasBubblewrap = existsSync('/usr/bin/bwrap')
export const hasDeno = findDeno() !== undefined

/**
 * Limits that make the tests quick; what they order stays the same. Those that a plugin of good will is held to are long:
 * on a busy machine it would break shorter ones, and be ended for that. Tests of one of them set it.
 */
export const quick: Partial<HostLimits> = {
  handshake: 25_000,
  pingAfter: 60_000,
  shutdownRequest: 300,
  endOfInput: 300,
  terminate: 300,
  backoffBase: 50,
  backoffMax: 200,
  settle: 100,
  memoryCheck: 200,
  storageCheck: 200,
  drain: 25_000,
  probation: 1_500,
}

/** Pings that soon find one that answers none at all. */
export const quickPings = { pingAfter: 300, pingTimeout: 500 } satisfies Partial<HostLimits>

export interface TestHost {
  core: PluginHostCore
  dataDir: string
  plugins: string
  settings: HostSettings
  stopped: Set<string>
  logged(): string
  /** Writes a plugin folder with the misbehaving program in the given mode, and optionally other manifest fields. */
  add(name: string, mode?: string, manifest?: Record<string, unknown>): Promise<string>
  /** Waits until the plugin is in one of the states. */
  until(id: string, ...states: string[]): Promise<Supervisor>
  /** Calls the fixture: its answer's text, or an attempt's outcome. */
  extract(id: string, options?: { path?: string; name?: string; timeoutMs?: number }): Promise<string>
  attempt(id: string, attempt: string, options?: Record<string, unknown>): Promise<Record<string, unknown>>
  stop(): Promise<void>
}

export const startHost = async (
  options: {
    limits?: Partial<HostLimits>
    tiers?: readonly TierName[]
    dataDir?: string
    settings?: Partial<HostSettings>
    begin?: boolean
  } = {},
): Promise<TestHost> => {
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), 'host-test-')))
  const plugins = join(dataDir, 'plugins')
  await mkdir(plugins, { recursive: true })
  const lines: string[] = []
  const settings: HostSettings = {
    enabled: true,
    allowlist: [],
    directories: [],
    minimumTier: 'node-permission',
    allowUnconfined: [],
    trustedKeys: [],
    requireSignature: false,
    maxDataDirectoryMb: 1024,
    experimental: false,
    warmSpares: [],
    ...options.settings,
  }
  const stopped = new Set<string>()
  const core = new PluginHostCore({
    dataDir,
    log: createLog({ level: 'info', write: line => lines.push(line) }),
    settings: () => settings,
    limits: { ...quick, ...options.limits },
    ...(options.tiers ? { tiers: options.tiers } : {}),
    stopped: {
      has: id => stopped.has(id),
      add: id => Promise.resolve(void stopped.add(id)),
      remove: id => Promise.resolve(void stopped.delete(id)),
    },
  })
  if (options.begin !== false) await core.start()
  const extract: TestHost['extract'] = async (id, { path = '', name = 'x.txt', timeoutMs = 25_000 } = {}) => {
    const params = { path, name, extension: '.txt', mimeType: 'text/plain', size: 1, outputDir: '' }
    return (await core.request(id, 'extractor.extract', params, { timeoutMs })).text ?? ''
  }
  return {
    core,
    dataDir,
    plugins,
    settings,
    stopped,
    logged: () => lines.join(''),
    add: async (name, mode = 'behave', manifest = {}) => {
      const directory = join(plugins, name)
      await addPlugin(directory, name, mode, manifest)
      return directory
    },
    until: (id, ...states) =>
      waitFor(
        `${id} to be ${states.join(' or ')}, it is ${core.supervisor(id)?.state ?? 'unknown'} (${core.supervisor(id)?.lastError ?? ''})`,
        () => {
          const supervisor = core.supervisor(id)
          return supervisor && states.includes(supervisor.state) ? supervisor : undefined
        },
      ),
    extract,
    attempt: async (id, attempt, more = {}) =>
      JSON.parse(await extract(id, { name: JSON.stringify({ attempt, ...more }) })) as Record<string, unknown>,
    stop: async () => {
      await core.stop()
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

/** A plugin folder: the program first, the manifest last, so that a scan never meets half of it. */
export const addPlugin = async (directory: string, name: string, mode: string, manifest: Record<string, unknown> = {}): Promise<void> => {
  await mkdir(directory, { recursive: true })
  await cp(join(FIXTURE, 'misbehaving.mjs'), join(directory, `${name}.mjs`))
  const { metadata, ...more } = manifest
  const content = {
    name,
    version: '1.0.0',
    pluginInterface: 'DocumentExtractor',
    supportedExtensions: ['.txt'],
    metadata: { mode, ...(metadata as object | undefined) },
    ...more,
  }
  await writeFile(join(directory, 'manifest.json'), JSON.stringify(content))
}

/** Pids of this machine whose command line holds the text. */
export const pidsWith = async (text: string): Promise<number[]> => {
  const names = (await readdir('/proc')).filter(name => /^\d+$/.test(name))
  const lines = await Promise.all(
    names.map(async name => [Number(name), await readFile(`/proc/${name}/cmdline`, 'utf8').catch(() => '')] as const),
  )
  return lines.filter(([pid, line]) => line.includes(text) && pid !== process.pid).map(([pid]) => pid)
}
