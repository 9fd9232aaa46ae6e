import { mkdir, mkdtemp, rm } from 'node:fs/promises'
import { basename, join, resolve } from 'node:path'
import PQueue from 'p-queue'
import { RpcError, type RequestOptions } from '../../sdk/rpc.js'
import { RpcErrorCode, type HostRequests, type PluginNotifications, type PluginRequests } from '../../sdk/protocol.js'
import { WIRED_INTERFACES } from '../../sdk/manifest.js'
import type { Log } from '../log.js'
import { chooseTier } from './launch/choice.js'
import type { Launch, Network, TierName } from './launch/tier.js'
import { discover, type Candidate, type Rejection } from './discovery.js'
import { residentByGroup } from './memory.js'
import { defaultLimits, type HostLimits } from './policy.js'
import { Supervisor, type Running } from './supervisor.js'
import { watchDirectories } from './watch.js'

/** What an administrator may change while the gateway runs. */
export interface HostSettings {
  enabled: boolean
  /** Ids, without regard to case; empty: every plugin. */
  allowlist: readonly string[]
  directories: readonly string[]
  minimumTier: TierName
  allowUnconfined: readonly string[]
}

export interface HostOptions {
  dataDir: string
  log: Log
  settings: () => HostSettings
  limits?: Partial<HostLimits>
  /** Plugins that an administrator stopped: they stay so over a restart of the gateway. */
  stopped: { has(id: string): boolean; add(id: string): Promise<void>; remove(id: string): Promise<void> }
  /** Sandbox tiers to use; all by default. */
  tiers?: readonly TierName[]
}

export type Serve = (pluginId: string, params: never) => Promise<unknown>
export type Hear = (pluginId: string, params: never) => void
export type HandoverHook = (pluginId: string, next: Running['process'], old: Running['process'] | undefined) => Promise<void>

/** Plugins that start at once: more only fight for the processors. */
const STARTS_AT_ONCE = 3
const MAX_HEAP_MB = 192

/** Finds external plugins, keeps them running in their sandboxes, and lets the rest of the gateway call them. */
export class PluginHostCore {
  readonly #options: HostOptions
  readonly #limits: HostLimits
  readonly #supervisors = new Map<string, Supervisor>()
  readonly #starts = new PQueue({ concurrency: STARTS_AT_ONCE })
  readonly #served = new Map<string, Serve>()
  readonly #heard = new Map<string, Set<Hear>>()
  readonly #handovers = new Set<HandoverHook>()
  readonly #changed = new Set<(pluginId: string) => void>()
  readonly #warned = new Set<string>()
  #rejections: Rejection[] = []
  #scanning: Promise<void> | undefined
  #scansWanted = 0
  #unwatch: () => Promise<void> = () => Promise.resolve()
  #memory: NodeJS.Timeout | undefined
  #stopped = false

  constructor(options: HostOptions) {
    this.#options = options
    this.#limits = { ...defaultLimits, ...options.limits }
  }

  get supervisors(): Supervisor[] {
    return [...this.#supervisors.values()]
  }

  get rejections(): readonly Rejection[] {
    return this.#rejections
  }

  supervisor(id: string): Supervisor | undefined {
    return this.#supervisors.get(id.toLowerCase())
  }

  isAllowed(id: string): boolean {
    const { allowlist } = this.#options.settings()
    return allowlist.length === 0 || allowlist.some(allowed => allowed.toLowerCase() === id.toLowerCase())
  }

  /** Scans, starts what may run, and watches for changes. */
  async start(): Promise<void> {
    await mkdir(this.#scanDirectories()[0] ?? this.#options.dataDir, { recursive: true, mode: 0o700 })
    await this.scan()
    await this.#watch()
    this.#memory = setInterval(() => void this.#checkMemory(), this.#limits.memoryCheck).unref()
  }

  /** Looks through the directories again and makes what runs agree with them and with the settings. Scans asked for meanwhile become one more. */
  scan(): Promise<void> {
    this.#scansWanted += 1
    this.#scanning ??= this.#scanAsWanted().finally(() => (this.#scanning = undefined))
    return this.#scanning
  }

  async #scanAsWanted(): Promise<void> {
    while (this.#scansWanted > 0 && !this.#stopped) {
      this.#scansWanted = 0
      await this.#scan()
    }
  }

  /** The settings have changed: directories are watched anew, plugins started or stopped. */
  async applySettings(): Promise<void> {
    await this.#unwatch()
    await this.scan()
    await this.#watch()
  }

  async restart(supervisor: Supervisor): Promise<void> {
    await this.#options.stopped.remove(supervisor.id)
    await supervisor.restart()
  }

  async stopPlugin(supervisor: Supervisor): Promise<void> {
    await this.#options.stopped.add(supervisor.id)
    await supervisor.stop('stopped', 'stopped by an administrator')
  }

  /** Stops every plugin, all at once, each by the stop ladder. */
  async stop(): Promise<void> {
    this.#stopped = true
    clearInterval(this.#memory)
    this.#starts.clear()
    await this.#unwatch()
    await this.#scanning?.catch(() => undefined)
    await Promise.all(this.supervisors.map(supervisor => supervisor.stop('stopped', 'the gateway stops')))
  }

  request<M extends keyof HostRequests>(
    id: string,
    method: M,
    params: HostRequests[M]['params'],
    options?: RequestOptions,
  ): Promise<HostRequests[M]['result']> {
    const supervisor = this.supervisor(id)
    if (supervisor) return supervisor.request(method, params, options)
    return Promise.reject(new RpcError(RpcErrorCode.connectionClosed, `There is no plugin ${id}`, { retryable: true, retryAfterMs: 5000 }))
  }

  serve(method: keyof PluginRequests, handler: Serve): () => void {
    if (this.#served.has(method)) throw new Error(`Two areas answer the plugins' request ${method}`)
    this.#served.set(method, handler)
    return () => this.#served.delete(method)
  }

  onNotification(method: keyof PluginNotifications, handler: Hear): () => void {
    const handlers = this.#heard.get(method) ?? new Set()
    this.#heard.set(method, handlers)
    return register(handlers, handler)
  }

  onHandover(hook: HandoverHook): () => void {
    return register(this.#handovers, hook)
  }

  onChange(handler: (pluginId: string) => void): () => void {
    return register(this.#changed, handler)
  }

  /** A fresh directory inside the plugin's own, for files that travel with a call. */
  async exchange(id: string): Promise<{ path: string; pathInPlugin: string; remove(): Promise<void> }> {
    const running = this.supervisor(id)?.current
    if (!running)
      throw new RpcError(RpcErrorCode.connectionClosed, `The plugin ${id} does not run`, { retryable: true, retryAfterMs: 1000 })
    const parent = join(this.#dataDirOf(running.candidate.id), 'exchange')
    await mkdir(parent, { recursive: true, mode: 0o700 })
    const path = await mkdtemp(join(parent, 'x-'))
    return {
      path,
      pathInPlugin: join(running.launch.dataDirInPlugin, 'exchange', basename(path)),
      remove: () => rm(path, { recursive: true, force: true }),
    }
  }

  async #scan(): Promise<void> {
    const { accepted, rejected } = await discover(this.#scanDirectories(), join(this.#options.dataDir, 'plugin-archives'))
    if (this.#stopped) return
    this.#rejections = rejected
    for (const { id, source, reason } of rejected)
      this.#warnOnce(`${source}\0${reason}`, `plugin ${id} in ${source} is rejected: ${reason}`)
    const found = new Set(accepted.map(({ id }) => id.toLowerCase()))
    // A plugin whose files are damaged right now keeps running from its staged copy; one that is gone stops.
    const damaged = new Set(rejected.map(({ source }) => source))
    const gone = this.supervisors.filter(({ id, candidate }) => !found.has(id.toLowerCase()) && !damaged.has(candidate.source))
    await Promise.all(gone.map(supervisor => this.#forget(supervisor)))
    for (const supervisor of this.supervisors) {
      const rejection = rejected.find(({ source }) => source === supervisor.candidate.source)
      if (rejection && !found.has(supervisor.id.toLowerCase())) supervisor.lastError = `its changed files are rejected: ${rejection.reason}`
    }
    for (const candidate of accepted) this.#reconcile(candidate)
  }

  async #forget(supervisor: Supervisor): Promise<void> {
    await supervisor.stop('stopped', 'its files are gone')
    this.#supervisors.delete(supervisor.id.toLowerCase())
    this.#tellChange(supervisor.id)
  }

  /** Makes one plugin agree with its files, the settings and the administrator's wish; starting it takes its turn. */
  #reconcile(candidate: Candidate): void {
    const known = this.supervisor(candidate.id)
    const supervisor = known ?? this.#supervise(candidate)
    for (const warning of candidate.warnings) this.#warnOnce(`${candidate.source}\0${warning}`, `plugin ${candidate.id}: ${warning}`)
    if (!this.#options.settings().enabled) {
      this.#rest(supervisor, candidate, 'disabled', 'Service:Plugins:Enabled is false')
      return
    }
    if (!this.isAllowed(candidate.id)) {
      this.#rest(supervisor, candidate, 'disabled', 'it is not on the allow-list')
      return
    }
    if (this.#options.stopped.has(candidate.id)) {
      this.#rest(supervisor, candidate, 'stopped', 'stopped by an administrator')
      return
    }
    void this.#starts.add(async () => {
      if (supervisor.current || supervisor.state === 'backing-off' || supervisor.state === 'failed') await supervisor.replace(candidate)
      else {
        supervisor.candidate = candidate
        await supervisor.start()
      }
    })
  }

  #rest(supervisor: Supervisor, candidate: Candidate, state: 'disabled' | 'stopped', reason: string): void {
    supervisor.candidate = candidate
    if (supervisor.state !== state || supervisor.current) void supervisor.stop(state, reason)
  }

  #supervise(candidate: Candidate): Supervisor {
    const { id } = candidate
    const supervisor = new Supervisor(candidate, {
      limits: this.#limits,
      log: this.#options.log.child({ pluginId: id }),
      stagingDir: join(this.#options.dataDir, 'plugin-versions', directoryName(id)),
      prepare: (next, directory) => this.#prepare(next, directory),
      serve: {
        handlers: { 'channel.receive': params => this.#answer(id, 'channel.receive', params) as never },
        listeners: {
          'channel.status': params => {
            this.#hear(id, 'channel.status', params)
          },
          log: ({ level, message, fields }) => {
            this.#options.log[level]({ pluginId: id, ...(fields === undefined ? {} : { fields }) }, message)
          },
        },
      },
      handover: (next, old) => this.#handOver(id, next, old),
      onChange: () => {
        this.#tellChange(id)
      },
    })
    this.#supervisors.set(id.toLowerCase(), supervisor)
    return supervisor
  }

  async #prepare(candidate: Candidate, directory: string): Promise<{ tier: TierName; launch: Launch }> {
    const { minimumTier, allowUnconfined } = this.#options.settings()
    const mayRunUnconfined = allowUnconfined.some(id => id.toLowerCase() === candidate.id.toLowerCase())
    const choice = await chooseTier({
      entry: candidate.entry,
      minimum: minimumTier,
      mayRunUnconfined,
      ...(this.#options.tiers ? { available: this.#options.tiers } : {}),
    })
    if ('refused' in choice) throw new Error(choice.refused)
    const dataDir = this.#dataDirOf(candidate.id)
    await mkdir(dataDir, { recursive: true, mode: 0o700 })
    if (!WIRED_INTERFACES.includes(candidate.manifest.pluginInterface))
      this.#warnOnce(
        candidate.id,
        `plugin ${candidate.id}: nothing uses plugins of the interface ${candidate.manifest.pluginInterface} yet; it runs all the same`,
      )
    const launch = choice.tier.prepare({
      directory,
      dataDir,
      entry: candidate.entry,
      network: networkOf(candidate),
      maxHeapMb: MAX_HEAP_MB,
    })
    return { tier: choice.tier.name, launch }
  }

  async #handOver(id: string, next: Running, old: Running | undefined): Promise<void> {
    for (const hook of this.#handovers) await hook(id, next.process, old?.process)
  }

  #answer(id: string, method: keyof PluginRequests, params: unknown): Promise<unknown> {
    const handler = this.#served.get(method)
    if (!handler) throw new RpcError(RpcErrorCode.methodNotFound, `Nothing here answers ${method}`)
    return handler(id, params as never)
  }

  #hear(id: string, method: keyof PluginNotifications, params: unknown): void {
    for (const handler of this.#heard.get(method) ?? []) handler(id, params as never)
  }

  #tellChange(id: string): void {
    for (const handler of [...this.#changed]) handler(id)
  }

  async #watch(): Promise<void> {
    if (this.#stopped) return
    this.#unwatch = await watchDirectories(this.#scanDirectories(), this.#limits.settle, () => {
      this.scan().catch((error: unknown) => {
        this.#options.log.error({ err: error }, 'the plugin directories could not be read')
      })
    })
  }

  async #checkMemory(): Promise<void> {
    const resident = await residentByGroup()
    for (const supervisor of this.supervisors) supervisor.checkMemory(supervisor.current && resident?.get(supervisor.current.process.pid))
  }

  #scanDirectories(): string[] {
    return [join(this.#options.dataDir, 'plugins'), ...this.#options.settings().directories].map(directory => resolve(directory))
  }

  #dataDirOf(id: string): string {
    return join(resolve(this.#options.dataDir), 'plugin-data', directoryName(id))
  }

  #warnOnce(key: string, message: string): void {
    if (this.#warned.has(key)) return
    if (this.#warned.size > 10_000) this.#warned.clear()
    this.#warned.add(key)
    this.#options.log.warn(message)
  }
}

/** What the plugin may reach: as its manifest asks, else by its interface. */
export const networkOf = ({ manifest }: Candidate): Network => {
  const hosts = manifest.permissions?.net
  if (hosts === undefined) return { kind: manifest.pluginInterface === 'ChannelAdapter' ? 'open' : 'none' }
  return hosts.length === 0 ? { kind: 'none' } : { kind: 'hosts', hosts }
}

/** An id as a file name: ids may hold what a file system reads differently, and compare without case. */
const directoryName = (id: string): string => encodeURIComponent(id.toLowerCase()).replaceAll('*', '%2A').replaceAll('.', '%2E')

const register = <T>(set: Set<T>, item: T): (() => void) => {
  set.add(item)
  return () => set.delete(item)
}
