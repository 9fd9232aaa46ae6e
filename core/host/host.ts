import { createHash } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import PQueue from 'p-queue'
import { RpcError, type RequestOptions } from '../../sdk/rpc.js'
import { RpcErrorCode, type HostRequests, type PluginNotifications, type PluginRequests } from '../../sdk/protocol.js'
import { WIRED_INTERFACES } from '../../sdk/manifest.js'
import type { Log } from '../log.js'
import { chooseTier } from './launch/choice.js'
import type { Launch, Network, TierName } from './launch/tier.js'
import { createExchange, type Exchange } from './exchange.js'
import { discover, type Candidate, type Rejection } from './discovery.js'
import { residentByGroup } from './memory.js'
import { defaultLimits, type HostLimits } from './policy.js'
import { throttleLines } from './outputTail.js'
import { pruneStaged } from './stage.js'
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
const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
const MAX_LOG_LENGTH = 2_000

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
  readonly #firstScan = withResolvers()
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

  /** Resolves once the plugin directories were looked through for the first time: what is not known by then is not there. */
  get discovered(): Promise<void> {
    return this.#firstScan.promise
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
    // What calls of an earlier run left behind, if it was killed.
    for (const left of ['plugin-exchange', join('tmp', 'exchange')])
      await rm(join(this.#options.dataDir, left), { recursive: true, force: true })
    await mkdir(this.#scanDirectories()[0] ?? this.#options.dataDir, { recursive: true, mode: 0o700 })
    await this.scan().finally(this.#firstScan.resolve)
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

  /** Files that travel with a call: `fill` puts them into the draft that it is given. */
  async exchange(id: string, fill: (draft: string) => Promise<void>): Promise<Exchange> {
    const running = this.supervisor(id)?.current
    if (!running)
      throw new RpcError(RpcErrorCode.connectionClosed, `The plugin ${id} does not run`, { retryable: true, retryAfterMs: 1000 })
    const place = {
      root: this.#directoryOf('plugin-exchange', running.candidate.id),
      rootInPlugin: running.launch.exchangeDirInPlugin,
      draftRoot: join(resolve(this.#options.dataDir), 'tmp', 'exchange'),
    }
    return createExchange(place, fill)
  }

  async #scan(): Promise<void> {
    const unpackDir = this.#directoryOf('plugin-archives', 'unpacked')
    const { accepted, rejected } = await discover(this.#scanDirectories(), unpackDir)
    if (this.#stopped) return
    await pruneStaged(unpackDir, new Set(accepted.map(({ directory }) => directory)))
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
    const rest = this.#mustRest(candidate.id)
    if (rest) {
      supervisor.candidate = candidate
      if (supervisor.state !== rest.state || supervisor.current) void supervisor.stop(rest.state, rest.reason)
      return
    }
    void this.#starts.add(async () => {
      // It may have been stopped or switched off while it waited for its turn.
      if (!this.#stopped && !this.#mustRest(candidate.id)) await supervisor.run(candidate)
    })
  }

  /** Why a plugin may not run now; `undefined`: it may. */
  #mustRest(id: string): { state: 'disabled' | 'stopped'; reason: string } | undefined {
    if (!this.#options.settings().enabled) return { state: 'disabled', reason: 'Service:Plugins:Enabled is false' }
    if (!this.isAllowed(id)) return { state: 'disabled', reason: 'it is not on the allow-list' }
    return this.#options.stopped.has(id) ? { state: 'stopped', reason: 'stopped by an administrator' } : undefined
  }

  #supervise(candidate: Candidate): Supervisor {
    const { id } = candidate
    const supervisor = new Supervisor(candidate, {
      limits: this.#limits,
      log: this.#options.log.child({ pluginId: id }),
      stagingDir: this.#directoryOf('plugin-versions', id),
      prepare: (next, directory) => this.#prepare(next, directory),
      serve: {
        handlers: { 'channel.receive': params => this.#answer(id, 'channel.receive', params) as never },
        listeners: {
          'channel.status': params => {
            this.#hear(id, 'channel.status', params)
          },
          log: throttleLines(params => {
            this.#logFor(id, params)
          }),
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
    const dataDir = this.#directoryOf('plugin-data', candidate.id)
    const exchangeDir = this.#directoryOf('plugin-exchange', candidate.id)
    for (const own of [dataDir, exchangeDir]) await mkdir(own, { recursive: true, mode: 0o700 })
    if (!WIRED_INTERFACES.includes(candidate.manifest.pluginInterface))
      this.#warnOnce(
        candidate.id,
        `plugin ${candidate.id}: nothing uses plugins of the interface ${candidate.manifest.pluginInterface} yet; it runs all the same`,
      )
    const launch = choice.tier.prepare({
      directory,
      dataDir,
      exchangeDir,
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

  /** What a plugin says is data: its level is one of ours, its text is bounded. */
  #logFor(id: string, params: unknown): void {
    const { level, message, fields } = (typeof params === 'string' ? { message: params } : (params ?? {})) as Partial<
      Record<string, unknown>
    >
    const known = LOG_LEVELS.find(name => name === level) ?? 'info'
    const extra = fields === undefined ? {} : { fields: JSON.stringify(fields).slice(0, MAX_LOG_LENGTH) }
    this.#options.log[known]({ pluginId: id, ...extra }, String(message).slice(0, MAX_LOG_LENGTH))
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

  #directoryOf(kind: string, id: string): string {
    return join(resolve(this.#options.dataDir), kind, directoryName(id))
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

/** An id as a file name: short, the same for every case of its letters, and never another plugin's. */
const directoryName = (id: string): string => {
  const lower = id.toLowerCase()
  if (/^[a-z0-9][a-z0-9-]{0,63}$/.test(lower)) return lower
  return `${lower.replaceAll(/[^a-z0-9]+/g, '-').slice(0, 40)}_${createHash('sha256').update(lower).digest('hex').slice(0, 16)}`
}

const withResolvers = (): { promise: Promise<void>; resolve: () => void } => {
  let resolve = (): void => undefined
  const promise = new Promise<void>(done => (resolve = done))
  return { promise, resolve }
}

const register = <T>(set: Set<T>, item: T): (() => void) => {
  set.add(item)
  return () => set.delete(item)
}
