import { mkdir, rm } from 'node:fs/promises'
import { resolve } from 'node:path'
import { RpcError, type RequestOptions } from '../../sdk/rpc.js'
import { RpcErrorCode, type HostRequests } from '../../sdk/protocol.js'
import type { Candidate, Rejection } from './discovery.js'
import { createExchange, type Exchange } from './exchange.js'
import { Hooks } from './hooks.js'
import type { HostOptions } from './hostOptions.js'
import { Installs, type Installation } from './installs.js'
import { Places, type PlaceKind } from './places.js'
import { readLogParams } from './pluginLog.js'
import { defaultLimits, type HostLimits } from './policy.js'
import { prepareLaunch } from './preparation.js'
import { Reconciler } from './reconciler.js'
import { Scans } from './scans.js'
import type { SignaturePolicy } from './signature.js'
import { Supervisor } from './supervisor.js'
import { throttleLines } from './throttleLines.js'
import { Unpacker } from './unpacker.js'
import { UseWatch } from './useWatch.js'
import { warnOnce } from './warnOnce.js'

/** Finds external plugins, keeps them running in their sandboxes, and lets the rest of the gateway call them. */
export class PluginHostCore {
  /** The archives that were installed; a scan takes up what was changed there. */
  readonly installs: Installs
  readonly unpacker = new Unpacker()
  /** What the areas of the gateway want to do when plugins ask, tell, take over or change. */
  readonly hooks = new Hooks()
  readonly #options: HostOptions
  readonly #limits: HostLimits
  readonly #places: Places
  readonly #warnOnce: (key: string, message: string) => void
  readonly #reconciler: Reconciler
  readonly #scans: Scans
  readonly #firstScan = withResolvers()
  #useWatch: UseWatch | undefined

  constructor(options: HostOptions) {
    this.#options = options
    this.#limits = { ...defaultLimits, ...options.limits }
    this.#places = new Places(options.dataDir)
    this.#warnOnce = warnOnce(options.log)
    this.installs = new Installs(this.#places.installs)
    const directories = (): string[] => this.#scanDirectories()
    this.#reconciler = new Reconciler({
      options,
      places: this.#places,
      installs: this.installs,
      unpacker: this.unpacker,
      directories,
      signaturePolicy: () => this.signaturePolicy,
      supervise: candidate => this.#supervise(candidate),
      onForgotten: id => {
        this.hooks.tellChange(id)
      },
      warnOnce: this.#warnOnce,
    })
    this.#scans = new Scans({
      log: options.log,
      look: () => this.#reconciler.look(),
      directories,
      settleMs: this.#limits.settle,
      warnOnce: this.#warnOnce,
    })
  }

  get supervisors(): Supervisor[] {
    return this.#reconciler.supervisors
  }

  get rejections(): readonly Rejection[] {
    return this.#reconciler.rejections
  }

  /** Of a plugin that was installed, as of the last scan. */
  installation(id: string): Installation | undefined {
    return this.#reconciler.installation(id)
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
    return this.#reconciler.supervisor(id)
  }

  isAllowed(id: string): boolean {
    return this.#reconciler.isAllowed(id)
  }

  /** Scans, starts what may run, and watches for changes. */
  async start(): Promise<void> {
    for (const left of this.#places.leftovers) await rm(left, { recursive: true, force: true })
    await this.installs.cleanUp()
    await mkdir(this.#places.plugins, { recursive: true, mode: 0o700 })
    await this.scan().finally(this.#firstScan.resolve)
    await this.#scans.watch()
    this.#useWatch = new UseWatch({
      memoryIntervalMs: this.#limits.memoryCheck,
      storageIntervalMs: this.#limits.storageCheck,
      dataDir: this.#places.dataDir,
      supervisors: () => this.supervisors,
      directoriesOf: id => [this.#places.of('plugin-data', id), this.#places.of('plugin-exchange', id)],
      onFailure: error => {
        this.#options.log.warn({ err: error }, 'what plugins use of memory and disk could not be looked at')
      },
    })
  }

  /** Looks through the directories again and makes what runs agree with them and with the settings. Scans asked for meanwhile become one more. */
  scan(): Promise<void> {
    return this.#scans.scan()
  }

  /** The same where nobody waits for it: what goes wrong is logged. */
  scanSoon(): void {
    this.#scans.scanSoon()
  }

  /** The settings have changed: directories are watched anew, plugins started or stopped. */
  applySettings(): Promise<void> {
    return this.#scans.rewatch()
  }

  async restart(supervisor: Supervisor): Promise<void> {
    await this.#options.stopped.remove(supervisor.id)
    await supervisor.restart(this.#reconciler.newest(supervisor))
  }

  async stopPlugin(supervisor: Supervisor): Promise<void> {
    await this.#options.stopped.add(supervisor.id)
    await supervisor.stop('stopped', 'stopped by an administrator')
  }

  /** Removes what a plugin that is gone has left; its own data only when asked to. Nothing while there is one of its id. */
  async discard(id: string, { data }: { data: boolean }): Promise<void> {
    if (this.supervisor(id)) return
    await this.#options.stopped.remove(id)
    const kinds: PlaceKind[] = ['plugin-versions', 'plugin-exchange', ...(data ? (['plugin-data'] as const) : [])]
    for (const kind of kinds) await rm(this.#places.of(kind, id), { recursive: true, force: true })
  }

  /** Stops every plugin, all at once, each by the stop ladder. */
  async stop(): Promise<void> {
    this.#useWatch?.stop()
    this.#reconciler.stop()
    await this.#scans.stop()
    await this.unpacker.close()
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

  /** Files that travel with a call: `fill` puts them into the draft that it is given. */
  async exchange(id: string, fill: (draft: string) => Promise<void>): Promise<Exchange> {
    const running = this.supervisor(id)?.current
    if (!running)
      throw new RpcError(RpcErrorCode.connectionClosed, `The plugin ${id} does not run`, { retryable: true, retryAfterMs: 1000 })
    const place = {
      root: this.#places.of('plugin-exchange', running.candidate.id),
      rootInPlugin: running.launch.exchangeDirInPlugin,
      draftRoot: this.#places.exchangeDrafts,
    }
    return createExchange(place, fill)
  }

  #supervise(candidate: Candidate): Supervisor {
    const { id } = candidate
    const log = this.#options.log.child({ pluginId: id })
    const writeLog = throttleLines<ReturnType<typeof readLogParams>>(said => {
      if (typeof said === 'string') log.warn(said)
      else log[said.level](said.text)
    })
    const preparation = { options: this.#options, places: this.#places, warnOnce: this.#warnOnce }
    const supervisor: Supervisor = new Supervisor(candidate, {
      limits: this.#limits,
      log,
      stagingDir: this.#places.of('plugin-versions', id),
      prepare: (next, directory) => prepareLaunch(preparation, next, directory),
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
      maxDataDirectoryMb: () => this.#options.settings().maxDataDirectoryMb,
      onChange: () => {
        this.hooks.tellChange(id)
      },
    })
    return supervisor
  }

  #scanDirectories(): string[] {
    return [this.#places.plugins, ...this.#options.settings().directories.map(directory => resolve(directory))]
  }
}

const withResolvers = (): { promise: Promise<void>; resolve: () => void } => {
  let resolve = (): void => undefined
  const promise = new Promise<void>(done => (resolve = done))
  return { promise, resolve }
}
