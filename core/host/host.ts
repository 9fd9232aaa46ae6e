import { mkdir, rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import PQueue from 'p-queue'
import { RpcError, type RequestOptions } from '../../sdk/rpc.js'
import { RpcErrorCode, type HostRequests } from '../../sdk/protocol.js'
import { EXPERIMENTAL_INTERFACES, WIRED_INTERFACES } from '../../sdk/manifest.js'
import type { Log } from '../log.js'
import { chooseTier } from './launch/choice.js'
import type { Launch, Network, TierName } from './launch/tier.js'
import { Hooks } from './hooks.js'
import { createExchange, type Exchange } from './exchange.js'
import { discover, type Candidate, type Rejection, type Served } from './discovery.js'
import { idFileName } from './idFileName.js'
import { Installs, type Installation } from './installs.js'
import { defaultLimits, GATEWAY_STOPS, Unfit, type HostLimits } from './policy.js'
import { readLogParams } from './pluginLog.js'
import { whyNotTrusted, type SignaturePolicy } from './signature.js'
import { pruneStaged } from './stage.js'
import { Supervisor } from './supervisor.js'
import { throttleLines } from './throttleLines.js'
import { Unpacker } from './unpacker.js'
import { UseWatch } from './useWatch.js'
import { watchDirectories } from './watch.js'

/** What an administrator may change while the gateway runs. */
export interface HostSettings {
  enabled: boolean
  /** Ids, without regard to case; empty: every plugin. */
  allowlist: readonly string[]
  directories: readonly string[]
  minimumTier: TierName
  allowUnconfined: readonly string[]
  /** Public keys whose archives are trusted, and whether only those may run. */
  trustedKeys: readonly string[]
  requireSignature: boolean
  /** Plugins of `EXPERIMENTAL_INTERFACES` are used. */
  experimental: boolean
  /** Ids, without regard to case, of plugins that a second process stands by for. */
  warmSpares: readonly string[]
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

/** Plugins that start at once: more only fight for the processors. */
const STARTS_AT_ONCE = 3
const MAX_HEAP_MB = 192

/** Finds external plugins, keeps them running in their sandboxes, and lets the rest of the gateway call them. */
export class PluginHostCore {
  /** The archives that were installed; a scan takes up what was changed there. */
  readonly installs: Installs
  readonly unpacker = new Unpacker()
  readonly #options: HostOptions
  readonly #limits: HostLimits
  readonly #supervisors = new Map<string, Supervisor>()
  /** What the last scan found for it: whoever waits for his turn to start takes up that. */
  readonly #found = new WeakMap<Supervisor, Candidate>()
  readonly #starts = new PQueue({ concurrency: STARTS_AT_ONCE })
  /** What the areas of the gateway want to do when plugins ask, tell, take over or change. */
  readonly hooks = new Hooks()
  readonly #warned = new Set<string>()
  readonly #firstScan = withResolvers()
  #rejections: Rejection[] = []
  #installations = new Map<string, Installation>()
  #scanning: Promise<void> | undefined
  #scansWanted = 0
  #unwatch: () => Promise<void> = () => Promise.resolve()
  #useWatch: UseWatch | undefined
  /** One change of the directories after the other: each closes the watcher of the one before. */
  #applying: Promise<unknown> = Promise.resolve()
  #stopped = false

  constructor(options: HostOptions) {
    this.#options = options
    this.#limits = { ...defaultLimits, ...options.limits }
    this.installs = new Installs(join(resolve(options.dataDir), 'plugin-installs'))
  }

  get supervisors(): Supervisor[] {
    return [...this.#supervisors.values()]
  }

  get rejections(): readonly Rejection[] {
    return this.#rejections
  }

  /** Of a plugin that was installed, as of the last scan. */
  installation(id: string): Installation | undefined {
    return this.#installations.get(id.toLowerCase())
  }

  get signaturePolicy(): SignaturePolicy {
    const { trustedKeys, requireSignature } = this.#options.settings()
    return { trustedKeys, required: requireSignature }
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
    for (const left of ['plugin-exchange', join('tmp', 'exchange'), join('tmp', 'installs')])
      await rm(join(this.#options.dataDir, left), { recursive: true, force: true })
    await this.installs.cleanUp()
    await mkdir(this.#scanDirectories()[0] ?? this.#options.dataDir, { recursive: true, mode: 0o700 })
    await this.scan().finally(this.#firstScan.resolve)
    await this.#watch()
    this.#useWatch = new UseWatch({
      intervalMs: this.#limits.memoryCheck,
      supervisors: () => this.supervisors,
      directoriesOf: id => ['plugin-data', 'plugin-exchange'].map(kind => this.#directoryOf(kind, id)),
      onFailure: error => {
        this.#options.log.warn({ err: error }, 'what plugins use of memory and disk could not be looked at')
      },
    })
  }

  /** Looks through the directories again and makes what runs agree with them and with the settings. Scans asked for meanwhile become one more. */
  scan(): Promise<void> {
    this.#scansWanted += 1
    this.#scanning ??= this.#scanAsWanted()
    return this.#scanning
  }

  /** The same where nobody waits for it: what goes wrong is logged. */
  scanSoon(): void {
    this.scan().catch((error: unknown) => {
      this.#options.log.error({ err: error }, 'the plugin directories could not be read')
    })
  }

  #isStopped(): boolean {
    return this.#stopped
  }

  async #scanAsWanted(): Promise<void> {
    try {
      while (this.#scansWanted > 0 && !this.#stopped) {
        this.#scansWanted = 0
        await this.#scan()
      }
    } finally {
      // At once: a scan that is asked for after the last look must not be taken for one under way.
      this.#scanning = undefined
    }
  }

  /** The settings have changed: directories are watched anew, plugins started or stopped. */
  applySettings(): Promise<void> {
    const applied = this.#applying.then(async () => {
      await this.#unwatch()
      await this.scan()
      await this.#watch()
    })
    this.#applying = applied.catch(() => undefined)
    return applied
  }

  async restart(supervisor: Supervisor): Promise<void> {
    await this.#options.stopped.remove(supervisor.id)
    await supervisor.restart(this.#found.get(supervisor) ?? supervisor.candidate)
  }

  async stopPlugin(supervisor: Supervisor): Promise<void> {
    await this.#options.stopped.add(supervisor.id)
    await supervisor.stop('stopped', 'stopped by an administrator')
  }

  /** Removes what a plugin that is gone has left; its own data only when asked to. Nothing while there is one of its id. */
  async discard(id: string, { data }: { data: boolean }): Promise<void> {
    if (this.supervisor(id)) return
    await this.#options.stopped.remove(id)
    for (const kind of ['plugin-versions', 'plugin-exchange', ...(data ? ['plugin-data'] : [])])
      await rm(this.#directoryOf(kind, id), { recursive: true, force: true })
  }

  /** Stops every plugin, all at once, each by the stop ladder. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#useWatch?.stop()
    this.#starts.clear()
    await this.#unwatch()
    await this.#scanning?.catch(() => undefined)
    await this.unpacker.close()
    await Promise.all(this.supervisors.map(supervisor => supervisor.stop('stopped', GATEWAY_STOPS)))
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
    const policy = this.signaturePolicy
    const served = this.#running(policy)
    const installed = await this.installs.list()
    const { accepted, rejected, unpacked } = await discover({
      installed,
      directories: this.#scanDirectories(),
      unpackDir,
      unpacker: this.unpacker,
      policy,
      served,
    })
    if (this.#stopped) return
    this.#installations = new Map(
      installed.flatMap(entry => ('installation' in entry ? [[entry.installation.id.toLowerCase(), entry.installation]] : [])),
    )
    await pruneStaged(unpackDir, unpacked)
    this.#rejections = rejected
    for (const { id, source, reason } of rejected)
      this.#warnOnce(`${source}\0${reason}`, `plugin ${id} in ${source} is rejected: ${reason}`)
    const found = new Set(accepted.map(({ id }) => id.toLowerCase()))
    // A plugin whose files are damaged right now keeps running from its staged copy; one that is gone stops.
    const damaged = new Set(rejected.map(({ source }) => source))
    const mayStay = ({ candidate }: Supervisor): boolean =>
      damaged.has(candidate.source) && whyNotTrusted(candidate.evidence, policy) === undefined
    const gone = this.supervisors.filter(supervisor => !found.has(supervisor.id.toLowerCase()) && !mayStay(supervisor))
    const whyGone = ({ candidate }: Supervisor): string =>
      rejected.find(({ source }) => source === candidate.source)?.reason ?? 'its files are gone'
    await Promise.all(gone.map(supervisor => this.#forget(supervisor, whyGone(supervisor))))
    for (const supervisor of this.supervisors) {
      const rejection = rejected.find(({ source }) => source === supervisor.candidate.source)
      if (rejection && !found.has(supervisor.id.toLowerCase())) supervisor.lastError = `its changed files are rejected: ${rejection.reason}`
    }
    for (const candidate of accepted) this.#reconcile(candidate)
  }

  /** What an interruption of its files must not replace. */
  #running(policy: SignaturePolicy): Served[] {
    const isUp = ({ state, candidate }: Supervisor): boolean =>
      !['discovered', 'disabled', 'stopped', 'failed'].includes(state) && whyNotTrusted(candidate.evidence, policy) === undefined
    return this.supervisors.filter(isUp).map(({ id, candidate }) => ({ id, version: candidate.manifest.version, source: candidate.source }))
  }

  async #forget(supervisor: Supervisor, reason: string): Promise<void> {
    await supervisor.stop('stopped', reason)
    this.#supervisors.delete(supervisor.id.toLowerCase())
    this.hooks.tellChange(supervisor.id)
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
    this.#found.set(supervisor, candidate)
    void this.#starts.add(async () => {
      // It may have been removed, stopped or switched off while it waited for its turn.
      if (this.supervisor(candidate.id) !== supervisor || this.#stopped || this.#mustRest(candidate.id)) return
      await supervisor.run(this.#found.get(supervisor) ?? candidate)
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
    const log = this.#options.log.child({ pluginId: id })
    const writeLog = throttleLines<ReturnType<typeof readLogParams>>(said => {
      if (typeof said === 'string') log.warn(said)
      else log[said.level](said.text)
    })
    const supervisor: Supervisor = new Supervisor(candidate, {
      limits: this.#limits,
      log,
      stagingDir: this.#directoryOf('plugin-versions', id),
      prepare: (next, directory) => this.#prepare(next, directory),
      keepsSpare: () => this.#options.settings().warmSpares.some(wanted => wanted.toLowerCase() === id.toLowerCase()),
      serve: {
        handlers: { 'channel.receive': params => this.hooks.answer(id, 'channel.receive', params) as never },
        listeners: {
          'channel.status': params => {
            this.hooks.hear(id, 'channel.status', params)
          },
          'model.delta': params => {
            this.hooks.hear(id, 'model.delta', params)
          },
          log: params => {
            const said = readLogParams(params)
            supervisor.log.add('plugin', said.level, said.text)
            writeLog(said)
          },
        },
      },
      handover: (next, old) => this.hooks.handOver(id, next.process, old?.process),
      onChange: () => {
        this.hooks.tellChange(id)
      },
    })
    this.#supervisors.set(id.toLowerCase(), supervisor)
    return supervisor
  }

  async #prepare(candidate: Candidate, directory: string): Promise<{ tier: TierName; launch: Launch }> {
    const { minimumTier, allowUnconfined, experimental } = this.#options.settings()
    const mayRunUnconfined = allowUnconfined.some(id => id.toLowerCase() === candidate.id.toLowerCase())
    const choice = await chooseTier({
      entry: candidate.entry,
      network: networkOf(candidate),
      minimum: minimumTier,
      mayRunUnconfined,
      ...(this.#options.tiers ? { available: this.#options.tiers } : {}),
    })
    if ('refused' in choice) throw new Unfit(choice.refused, { dependsOnSettings: true })
    const dataDir = this.#directoryOf('plugin-data', candidate.id)
    const exchangeDir = this.#directoryOf('plugin-exchange', candidate.id)
    for (const own of [dataDir, exchangeDir]) await mkdir(own, { recursive: true, mode: 0o700 })
    const unused = whyUnused(candidate, experimental)
    if (unused !== undefined) this.#warnOnce(candidate.id, `plugin ${candidate.id}: ${unused}; it runs all the same`)
    const launch = choice.tier.prepare({
      directory,
      dataDir,
      exchangeDir,
      entry: candidate.entry,
      network: networkOf(candidate),
      hidden: [resolve(this.#options.dataDir)],
      ownDir: join(resolve(this.#options.dataDir), 'plugin-shown'),
      hostFilter: choice.hostFilter,
      maxHeapMb: MAX_HEAP_MB,
    })
    return { tier: choice.tier.name, launch }
  }

  async #watch(): Promise<void> {
    if (this.#stopped) return
    this.#unwatch = await watchDirectories(this.#scanDirectories(), this.#limits.settle, {
      onChange: () => {
        this.scanSoon()
      },
      onFailure: error => {
        const { code, message } = error as NodeJS.ErrnoException
        this.#warnOnce(`watch\0${code ?? message}`, `plugin directories are not watched for changes (${message}): use POST /plugins/scan`)
      },
    })
    // It may have been stopped meanwhile.
    if (this.#isStopped()) await this.#unwatch()
  }

  #scanDirectories(): string[] {
    return [join(this.#options.dataDir, 'plugins'), ...this.#options.settings().directories].map(directory => resolve(directory))
  }

  #directoryOf(kind: string, id: string): string {
    return join(resolve(this.#options.dataDir), kind, idFileName(id))
  }

  #warnOnce(key: string, message: string): void {
    if (this.#warned.has(key)) return
    if (this.#warned.size > 10_000) this.#warned.clear()
    this.#warned.add(key)
    this.#options.log.warn(message)
  }
}

const whyUnused = ({ manifest: { pluginInterface } }: Candidate, experimental: boolean): string | undefined => {
  if (WIRED_INTERFACES.includes(pluginInterface)) return undefined
  if (!EXPERIMENTAL_INTERFACES.includes(pluginInterface)) return `nothing uses plugins of the interface ${pluginInterface} yet`
  return experimental
    ? undefined
    : `nothing uses plugins of the interface ${pluginInterface} yet, unless Service:Plugins:Experimental is switched on`
}

/** What the plugin may reach: as its manifest asks, else by its interface. */
export const networkOf = ({ manifest }: Candidate): Network => {
  const hosts = manifest.permissions?.net
  if (hosts === undefined) return { kind: manifest.pluginInterface === 'ChannelAdapter' ? 'open' : 'none' }
  return hosts.length === 0 ? { kind: 'none' } : { kind: 'hosts', hosts }
}

const withResolvers = (): { promise: Promise<void>; resolve: () => void } => {
  let resolve = (): void => undefined
  const promise = new Promise<void>(done => (resolve = done))
  return { promise, resolve }
}
