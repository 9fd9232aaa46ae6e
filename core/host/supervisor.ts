import { RpcError, type RequestOptions } from '../../sdk/rpc.js'
import { RpcErrorCode, type HostRequests } from '../../sdk/protocol.js'
import type { Log } from '../log.js'
import { PluginCrashed } from './crash.js'
import type { Candidate } from './discovery.js'
import { Latency } from './latency.js'
import { Liveness } from './liveness.js'
import type { Launch, TierName } from './launch/tier.js'
import { PluginLog } from './pluginLog.js'
import { throttleLines } from './throttleLines.js'
import { afterCrash, recentCrashes, Unfit, type HostLimits } from './policy.js'
import { storedBytes } from './storage.js'
import { PluginProcess, type ProcessOptions } from './process.js'
import { Spare, type Running } from './spare.js'
import { StagedCopies } from './stagedCopies.js'

export type { Running } from './spare.js'

export type PluginState =
  'discovered' | 'disabled' | 'rejected' | 'starting' | 'ready' | 'degraded' | 'reloading' | 'backing-off' | 'failed' | 'stopped'

/** Lines of output shown with a plugin's record; its log has more. */
const MAX_SHOWN_LINES = 200

/** What a supervisor needs of its host. */
export interface SupervisorSurroundings {
  readonly limits: HostLimits
  readonly log: Log
  /** Where the plugin's staged copies lie, one directory each. */
  readonly stagingDir: string
  /** Picks the sandbox; throws with the reason when none will do. */
  prepare(candidate: Candidate, directory: string): Promise<{ tier: TierName; launch: Launch }>
  readonly serve: Pick<ProcessOptions, 'handlers' | 'listeners'>
  /** Whether a second process shall stand by to take over. */
  keepsSpare(): boolean
  /** Lets the areas that use the plugin move over. Rejecting refuses the new process. */
  handover(next: Running, old: Running | undefined): Promise<void>
  onChange(): void
}

const mib = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`

/** Keeps one plugin running: starts, watches, restarts, replaces and stops its process. */
export class Supervisor {
  readonly id: string
  candidate: Candidate
  state: PluginState = 'discovered'
  reason: string | undefined
  lastError: string | undefined
  restarts = 0
  residentBytes: number | undefined
  storedBytes: number | undefined
  readonly latency = new Latency()
  readonly log = new PluginLog()
  readonly spare: Spare
  readonly #around: SupervisorSurroundings
  /** Replaced processes whose calls are finishing. */
  readonly #draining = new Map<Running, Promise<unknown>>()
  /** Why the gateway itself ended the process. */
  #endedFor: string | undefined
  #current: Running | undefined
  #crashes: number[] = []
  /** The files that could not replace the running ones. */
  #refused: string | undefined
  /** It is unfit under settings that may have changed. */
  #mayFitNow = false
  #readySince = 0
  #liveness: Liveness | undefined
  #retry: NodeJS.Timeout | undefined
  #turn: Promise<unknown> = Promise.resolve()
  readonly #copies: StagedCopies
  /** The version before the current one, for as long as the current one has yet to prove itself. */
  #previous: Candidate | undefined
  #probation: NodeJS.Timeout | undefined

  constructor(candidate: Candidate, around: SupervisorSurroundings) {
    this.id = candidate.id
    this.candidate = candidate
    this.#around = around
    this.#copies = new StagedCopies(around.stagingDir, error => {
      around.log.warn({ err: error }, `old copies of the plugin ${this.id} could not be removed`)
    })
    this.spare = new Spare({
      limits: around.limits,
      serve: around.serve,
      isWanted: () => around.keepsSpare(),
      prepare: (files, directory) => around.prepare(files, directory),
      start: (files, directory, serve) => this.#startIn(files, directory, serve),
      onTrouble: message => {
        this.log.add('gateway', 'warn', message)
        around.log.warn(`plugin ${this.id}: ${message}`)
      },
    })
  }

  get current(): Running | undefined {
    return this.#current
  }

  /** The newest lines that the plugin wrote, also of the process before. */
  get outputTail(): string[] {
    const lines = this.log.lines().filter(({ source }) => source !== 'gateway')
    return lines.slice(-MAX_SHOWN_LINES).map(({ text }) => text)
  }

  /**
   * Makes it run from these files: starts it, or takes up changed files. The new process serves before the old one
   * goes, and a new one that fails leaves the old one serving; the same files are not tried again.
   */
  run(candidate: Candidate): Promise<void> {
    return this.#inTurn(async () => {
      const { signature } = candidate.listing
      if (signature === this.#refused) return
      if (this.#current) {
        if (signature !== this.#current.candidate.listing.signature) await this.#replace(this.#current, candidate)
        else this.spare.keep(this.#current)
        return
      }
      const isTried = this.state === 'backing-off' || this.state === 'failed'
      if (isTried && signature === this.candidate.listing.signature && !this.#mayFitNow) return
      clearTimeout(this.#retry)
      this.candidate = candidate
      this.#crashes = []
      await this.#bringUp()
    })
  }

  /** Stops it until it is started again. */
  stop(state: 'stopped' | 'disabled', reason: string): Promise<void> {
    clearTimeout(this.#retry)
    return this.#inTurn(async () => {
      clearTimeout(this.#retry)
      const running = this.#current
      // What comes next starts from the files as they are then.
      this.#refused = undefined
      this.#previous = undefined
      clearTimeout(this.#probation)
      this.#release()
      this.#to(state, reason)
      await Promise.all([running?.process.stop(reason), this.spare.drop(reason)])
      await Promise.allSettled(this.#draining.values())
    })
  }

  /**
   * A fresh process, of these files when they can run, also where they were refused before; else of the version that
   * runs already.
   */
  restart(newest: Candidate): Promise<void> {
    return this.#inTurn(async () => {
      clearTimeout(this.#retry)
      this.#crashes = []
      this.#refused = undefined
      this.restarts += 1
      const old = this.#current
      if (old && newest.listing.signature !== old.candidate.listing.signature) {
        await this.#replace(old, newest)
        return
      }
      if (old) {
        this.#release()
        this.#to('starting', 'restarting')
        await old.process.stop('restarted by an administrator')
      } else this.candidate = newest
      await this.#bringUp()
    })
  }

  async request<M extends keyof HostRequests>(
    method: M,
    params: HostRequests[M]['params'],
    options?: RequestOptions,
  ): Promise<HostRequests[M]['result']> {
    const running = this.#current
    if (!running) throw this.#unavailable()
    const started = performance.now()
    try {
      const result = await running.process.request(method, params, options)
      this.latency.record(performance.now() - started, false)
      return result
    } catch (error) {
      this.latency.record(performance.now() - started, true)
      const crashed = error instanceof RpcError && error.code === RpcErrorCode.connectionClosed && !running.process.stopping
      throw crashed ? new PluginCrashed(this.id, error) : error
    }
  }

  /** Restarts it when it takes more memory than it may. `resident` covers everything that it has started. */
  checkMemory(resident: number | undefined): void {
    this.residentBytes = resident
    if (resident === undefined || !this.#current || resident <= this.#around.limits.maxResidentBytes) return
    this.#end(this.#current, `it used ${mib(resident)} of memory, more than ${mib(this.#around.limits.maxResidentBytes)}, and was ended`)
  }

  /** Ends it when it has stored more than it may in the directories that it can write. */
  async checkStorage(directories: readonly string[]): Promise<void> {
    const running = this.#current
    if (!running) return
    const megabytes = running.candidate.manifest.permissions?.dataDirectoryMb
    const limit = megabytes === undefined ? this.#around.limits.maxStoredBytes : megabytes * 1024 * 1024
    let stored = 0
    for (const directory of directories) stored += await storedBytes(directory, limit)
    this.storedBytes = stored
    if (stored > limit && running === this.#current)
      this.#end(running, `it stored more than ${mib(limit)} and was ended: clear its data directory, or raise permissions.dataDirectoryMb`)
  }

  async #replace(old: Running, candidate: Candidate): Promise<void> {
    this.#to('reloading', `version ${candidate.manifest.version} is starting`)
    try {
      const next = await this.#launch(candidate)
      await this.#handOver(next, old)
      this.candidate = candidate
      this.lastError = undefined
      this.#refused = undefined
      this.#watchOver(old.candidate)
      this.#serveWith(next)
      this.#drain(old, `replaced by version ${candidate.manifest.version}`)
    } catch (error) {
      this.#copies.started()
      this.#refused = candidate.listing.signature
      this.#complain(`version ${candidate.manifest.version} could not replace the running one: ${(error as Error).message}`)
      if (old.process.ended) this.#afterCrash()
      else this.#to('ready')
    }
  }

  async #bringUp(): Promise<void> {
    this.#to('starting')
    this.#mayFitNow = false
    try {
      const next = (await this.spare.take(this.candidate)) ?? (await this.#launch(this.candidate))
      await this.#handOver(next, undefined)
      this.#serveWith(next)
    } catch (error) {
      this.#copies.started()
      const { message } = error as Error
      if (message !== this.lastError || !(error instanceof Unfit)) this.#complain(message)
      if (error instanceof Unfit) {
        this.#mayFitNow = error.dependsOnSettings
        this.#to('failed', message)
      } else this.#afterCrash()
    }
  }

  async #launch(candidate: Candidate): Promise<Running> {
    return this.#startIn(candidate, await this.#copies.stage(candidate), this.#around.serve)
  }

  async #startIn(candidate: Candidate, directory: string, serve: SupervisorSurroundings['serve']): Promise<Running> {
    const { tier, launch } = await this.#around.prepare(candidate, directory)
    const write = throttleLines(line => {
      this.#around.log.info({ stderr: line }, `plugin ${this.id}`)
    })
    const onLine = (line: string): void => {
      this.log.add('output', 'info', line)
      write(line)
    }
    const plugin = { id: candidate.id, version: candidate.manifest.version }
    const process = await PluginProcess.start(launch, { plugin, limits: this.#around.limits, ...serve, onLine })
    return { process, candidate, tier, launch, directory }
  }

  async #handOver(next: Running, old: Running | undefined): Promise<void> {
    try {
      await this.#around.handover(next, old)
      if (next.process.ended) throw new Error('it ended right after its handshake')
    } catch (error) {
      await next.process.stop('it could not take over')
      throw error
    }
  }

  #serveWith(running: Running): void {
    this.#current = running
    this.#endedFor = undefined
    this.#copies.started()
    this.#readySince = Date.now()
    void running.process.exited.then(ending => {
      this.#onExit(running, ending)
    })
    this.#liveness?.stop()
    this.#liveness = new Liveness(running.process, this.#around.limits, {
      answered: () => {
        if (this.state === 'degraded') this.#to('ready')
      },
      missed: misses => {
        this.#onMissed(running, misses)
      },
    })
    this.#prune()
    this.#to('ready')
    this.spare.keep(running)
  }

  #onExit(running: Running, { code, signal }: { code: number | null; signal: NodeJS.Signals | null }): void {
    if (this.#current !== running) return
    const endedFor = this.#endedFor
    this.#release()
    const words = running.process.lastWords.slice(-3)
    const tail = words.length > 0 ? `: ${words.join(' | ')}` : ''
    this.#complain(endedFor ?? `it ended by itself (${signal ?? `code ${String(code)}`})${tail}`)
    // While it is being replaced, the end of that decides what follows.
    if (this.state === 'reloading') return
    if (this.#previous) this.#rollBack(this.#previous)
    else this.#afterCrash()
  }

  /** The version that was replaced is kept until the new one has lasted a while. */
  #watchOver(previous: Candidate): void {
    this.#previous = previous
    clearTimeout(this.#probation)
    this.#probation = setTimeout(() => {
      this.#previous = undefined
      this.#prune()
    }, this.#around.limits.probation).unref()
  }

  /** A version that ends so soon after it took over gives way to the one before; its files are not tried again. */
  #rollBack(previous: Candidate): void {
    const { candidate } = this
    this.#previous = undefined
    this.#refused = candidate.listing.signature
    this.candidate = previous
    const versions = `version ${candidate.manifest.version} ended soon after it had taken over: version ${previous.manifest.version} serves again`
    this.#to('reloading', versions)
    this.#complain(`${versions}. ${this.lastError ?? ''}`.trim())
    void this.#inTurn(async () => {
      // It may have been stopped meanwhile.
      if (this.state !== 'reloading' || this.#current) return
      const { lastError } = this
      this.restarts += 1
      await this.#bringUp()
      if (this.current) this.lastError = lastError
    })
  }

  #afterCrash(): void {
    const { limits } = this.#around
    const now = Date.now()
    const healthyFor = this.#readySince === 0 ? 0 : now - this.#readySince
    this.#readySince = 0
    this.#crashes = recentCrashes([...this.#crashes, now], now, limits)
    const next = afterCrash(this.#crashes, healthyFor, limits)
    if (!next.restart) {
      void this.spare.drop('the plugin has failed')
      this.#to(
        'failed',
        `it failed ${next.crashes} times within ${limits.crashWindow / 60_000} minutes: restart it, or install a new version. ${this.lastError ?? ''}`.trim(),
      )
      return
    }
    const delay = this.spare.isReadyFor(this.candidate) ? 0 : next.delay
    this.spare.rest(next.delay)
    const what = delay === 0 ? 'its spare takes over' : `it is started again in ${(delay / 1000).toFixed(1)} s`
    this.#to('backing-off', `${what}. ${this.lastError ?? ''}`.trim())
    this.#retry = setTimeout(() => {
      void this.#inTurn(async () => {
        if (this.state !== 'backing-off') return
        this.restarts += 1
        await this.#bringUp()
      })
    }, delay)
  }

  #onMissed(running: Running, misses: number): void {
    const { pingMisses } = this.#around.limits
    if (running !== this.#current) return
    if (misses < pingMisses) this.#to('degraded', `it missed ${misses} of ${pingMisses} pings`)
    else this.#end(running, `it did not answer ${pingMisses} pings and was ended`)
  }

  /** Lets the calls of a replaced process finish, then stops it. */
  #drain(old: Running, reason: string): void {
    const drained = (async () => {
      const deadline = Date.now() + this.#around.limits.drain
      while (old.process.stats.pending + old.process.stats.waiting > 0 && !old.process.ended && Date.now() < deadline)
        await new Promise(resolve => setTimeout(resolve, 25))
      await old.process.stop(reason)
    })().finally(() => {
      this.#draining.delete(old)
      this.#prune()
    })
    this.#draining.set(old, drained)
  }

  /** Removes the staged copies that nothing runs, or may run again, from. */
  #prune(): void {
    const running = [this.#current, ...this.#draining.keys()].flatMap(one => (one ? [one.candidate] : []))
    this.#copies.prune([...running, this.candidate, ...(this.#previous ? [this.#previous] : [])])
  }

  /** Ends a process that misbehaves; what follows is what follows a crash. */
  #end(running: Running, why: string): void {
    this.#endedFor = why
    running.process.kill()
  }

  #release(): void {
    this.#liveness?.stop()
    this.#endedFor = undefined
    this.#current = undefined
    this.residentBytes = undefined
  }

  #complain(error: string): void {
    this.lastError = error
    this.log.add('gateway', 'warn', error)
    this.#around.log.warn(`plugin ${this.id}: ${error}`)
  }

  #to(state: PluginState, reason?: string): void {
    this.log.add('gateway', 'info', reason === undefined ? state : `${state}: ${reason}`)
    this.state = state
    this.reason = reason
    this.#around.onChange()
  }

  #unavailable(): RpcError {
    const message = `The plugin ${this.id} does not run (${this.state}${this.reason === undefined ? '' : `: ${this.reason}`})`
    return new RpcError(RpcErrorCode.connectionClosed, message, { retryable: true, retryAfterMs: 1000 })
  }

  /** One thing at a time: what is asked for meanwhile comes after. */
  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(action)
    this.#turn = result.catch(() => undefined)
    return result
  }
}
