import { RpcError, type RequestOptions } from '../../sdk/rpc.js'
import { RpcErrorCode, type HostRequests } from '../../sdk/protocol.js'
import { storageAllowance, whyTooMuchMemory, whyTooMuchStored, type StorageAllowance } from './allowance.js'
import { PluginCrashed } from './crash.js'
import type { Candidate } from './discovery.js'
import { Draining } from './draining.js'
import { Latency } from './latency.js'
import { Liveness } from './liveness.js'
import { PluginLog } from './pluginLog.js'
import { Unfit } from './policy.js'
import { Probation } from './probation.js'
import { Recovery } from './recovery.js'
import type { Running } from './running.js'
import type { Spare } from './spare.js'
import { measureStored } from './storage.js'
import { Starter, type StarterSurroundings } from './starter.js'

export type PluginState =
  'discovered' | 'disabled' | 'rejected' | 'starting' | 'ready' | 'degraded' | 'reloading' | 'backing-off' | 'failed' | 'stopped'

/** Lines of output shown with a plugin's record; its log has more. */
const MAX_SHOWN_LINES = 200

/** What a supervisor needs of its host. */
export interface SupervisorSurroundings extends StarterSurroundings {
  /** The most that an administrator lets any plugin store. */
  maxDataDirectoryMb(): number
  onChange(): void
}

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
  readonly #around: SupervisorSurroundings
  readonly #recovery: Recovery
  readonly #probation: Probation
  readonly #draining: Draining
  readonly #starter: Starter
  /** Why the gateway itself ended the process. */
  #endedFor: string | undefined
  #current: Running | undefined
  #heldBytes = 0
  /** It is unfit under settings that may have changed. */
  #mayFitNow = false
  #liveness: Liveness | undefined
  #turn: Promise<unknown> = Promise.resolve()

  constructor(candidate: Candidate, around: SupervisorSurroundings) {
    this.id = candidate.id
    this.candidate = candidate
    this.#around = around
    const prune = (): void => {
      this.#prune()
    }
    this.#recovery = new Recovery(around.limits)
    this.#probation = new Probation(around.limits.probation, prune)
    this.#draining = new Draining(around.limits.drain, prune)
    this.#starter = new Starter(candidate.id, this.log, around)
  }

  get current(): Running | undefined {
    return this.#current
  }

  /** The process that stands by to take over, where one is kept. */
  get spare(): Spare {
    return this.#starter.spare
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
      if (this.#probation.isRefused(candidate)) return
      if (this.#current) {
        if (signature !== this.#current.candidate.listing.signature) await this.#replace(this.#current, candidate)
        else this.spare.keep(this.#current)
        return
      }
      const isTried = this.state === 'backing-off' || this.state === 'failed'
      if (isTried && signature === this.candidate.listing.signature && !this.#mayFitNow) return
      this.#recovery.beginAnew()
      this.candidate = candidate
      await this.#bringUp()
    })
  }

  /** Stops it until it is started again. */
  stop(state: 'stopped' | 'disabled', reason: string): Promise<void> {
    this.#recovery.cancelRetry()
    return this.#inTurn(async () => {
      this.#recovery.cancelRetry()
      const running = this.#current
      // What comes next starts from the files as they are then.
      this.#probation.pardon()
      this.#probation.end()
      this.#release()
      this.#to(state, reason)
      await Promise.all([running?.process.stop(reason), this.spare.drop(reason)])
      await this.#draining.settled()
    })
  }

  /**
   * A fresh process, of these files when they can run, also where they were refused before; else of the version that
   * runs already.
   */
  restart(newest: Candidate): Promise<void> {
    return this.#inTurn(async () => {
      this.#recovery.beginAnew()
      this.#probation.pardon()
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

  /**
   * Restarts it when it takes more memory than it may. `resident` covers everything that it has started, `heldBytes` is
   * what that holds open of deleted files, which counts with what it has stored.
   */
  checkMemory(resident: number | undefined, heldBytes: number): void {
    this.residentBytes = resident
    this.#heldBytes = heldBytes
    const why = resident === undefined ? undefined : whyTooMuchMemory(resident, this.#around.limits)
    if (this.#current && why !== undefined) this.#end(this.#current, why)
  }

  /** What it may store, as its manifest and the administrator say now. */
  get storageAllowance(): StorageAllowance {
    return storageAllowance(this.#current?.candidate ?? this.candidate, this.#around.limits, this.#around.maxDataDirectoryMb())
  }

  /** Ends it when it has stored more than it may in the directories that it can write. */
  async checkStorage(directories: readonly string[]): Promise<void> {
    const running = this.#current
    if (!running) return
    const allowance = this.storageAllowance
    const stored = await measureStored(directories, allowance)
    if (running !== this.#current) return
    this.storedBytes = stored.bytes + this.#heldBytes
    const why = whyTooMuchStored({ ...stored, bytes: this.storedBytes }, allowance)
    if (why !== undefined) this.#end(running, why)
  }

  async #replace(old: Running, candidate: Candidate): Promise<void> {
    this.#to('reloading', `version ${candidate.manifest.version} is starting`)
    try {
      const next = await this.#starter.start(candidate, old)
      this.candidate = candidate
      this.lastError = undefined
      this.#probation.begin(old.candidate)
      this.#serveWith(next)
      this.#draining.add(old, `replaced by version ${candidate.manifest.version}`)
    } catch (error) {
      this.#starter.settled()
      this.#probation.refuse(candidate)
      this.#complain(`version ${candidate.manifest.version} could not replace the running one: ${(error as Error).message}`)
      if (old.process.ended) this.#afterCrash()
      else this.#to('ready')
    }
  }

  async #bringUp(): Promise<void> {
    this.#to('starting')
    this.#mayFitNow = false
    try {
      this.#serveWith(await this.#starter.start(this.candidate, undefined))
    } catch (error) {
      this.#starter.settled()
      const { message } = error as Error
      if (message !== this.lastError || !(error instanceof Unfit)) this.#complain(message)
      if (error instanceof Unfit) {
        this.#mayFitNow = error.dependsOnSettings
        this.#to('failed', message)
      } else this.#afterCrash()
    }
  }

  #serveWith(running: Running): void {
    this.#current = running
    this.#endedFor = undefined
    this.#starter.settled()
    this.#recovery.serves()
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
    const { previous } = this.#probation
    if (previous) this.#rollBack(previous)
    else this.#afterCrash()
  }

  /** A version that ends so soon after it took over gives way to the one before; its files are not tried again. */
  #rollBack(previous: Candidate): void {
    const { candidate } = this
    this.#probation.end()
    this.#probation.refuse(candidate)
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
    const next = this.#recovery.crashed()
    if (!next.restart) {
      void this.spare.drop('the plugin has failed')
      this.#to(
        'failed',
        `it failed ${next.crashes} times within ${this.#around.limits.crashWindow / 60_000} minutes: restart it, or install a new version. ${this.lastError ?? ''}`.trim(),
      )
      return
    }
    const delay = this.spare.isReadyFor(this.candidate) ? 0 : next.delay
    this.spare.rest(next.delay)
    const what = delay === 0 ? 'its spare takes over' : `it is started again in ${(delay / 1000).toFixed(1)} s`
    this.#to('backing-off', `${what}. ${this.lastError ?? ''}`.trim())
    this.#recovery.retryIn(delay, () => {
      void this.#inTurn(async () => {
        if (this.state !== 'backing-off') return
        this.restarts += 1
        await this.#bringUp()
      })
    })
  }

  #onMissed(running: Running, misses: number): void {
    const { pingMisses } = this.#around.limits
    if (running !== this.#current) return
    if (misses < pingMisses) this.#to('degraded', `it missed ${misses} of ${pingMisses} pings`)
    else this.#end(running, `it did not answer ${pingMisses} pings and was ended`)
  }

  /** Removes the staged copies that nothing runs, or may run again, from. */
  #prune(): void {
    const running = [this.#current, ...this.#draining.running].flatMap(one => (one ? [one.candidate] : []))
    const { previous } = this.#probation
    this.#starter.prune([...running, this.candidate, ...(previous ? [previous] : [])])
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
    this.#heldBytes = 0
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
