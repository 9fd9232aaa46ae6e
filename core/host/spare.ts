import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'
import type { Candidate } from './discovery.js'
import type { Launch, TierName } from './launch/tier.js'
import { Liveness } from './liveness.js'
import { afterCrash, recentCrashes, type HostLimits } from './policy.js'
import type { PluginProcess, ProcessOptions } from './process.js'
import type { Running } from './running.js'

type Serve = Pick<ProcessOptions, 'handlers' | 'listeners'>

/** What a spare needs of its supervisor. */
export interface SpareSurroundings {
  readonly limits: HostLimits
  readonly serve: Serve
  /** Whether the administrator wants one for this plugin. */
  isWanted(): boolean
  prepare(candidate: Candidate, directory: string): Promise<{ tier: TierName; launch: Launch }>
  start(candidate: Candidate, directory: string, serve: Serve): Promise<Running>
  onTrouble(message: string): void
}

/**
 * A second process of a plugin that has shaken hands and waits: it was never connected and holds no secret. It takes the
 * place of the first when that ends, and so saves the start, not the reckoning: a crash counts as it does without one,
 * and the next spare is started no sooner than the plugin itself would have been.
 */
export class Spare {
  readonly #around: SpareSurroundings
  #of: Running | undefined
  #ready: { running: Running; open: () => void; liveness: Liveness } | undefined
  #starting: Promise<void> | undefined
  #retry: NodeJS.Timeout | undefined
  #losses: number[] = []
  #notBefore = 0
  /** Spares beside this process ended too often. */
  #gaveUpFor: Running | undefined
  residentBytes: number | undefined

  constructor(around: SpareSurroundings) {
    this.#around = around
  }

  /** The one that waits, if there is one. */
  get process(): PluginProcess | undefined {
    return this.#ready?.running.process
  }

  /** Keeps one of the same files as this process, where one is wanted; one of other files goes. */
  keep(of: Running): void {
    if (!this.#around.isWanted()) {
      void this.drop('no spare is wanted')
      return
    }
    const isSame = this.#of?.candidate.listing.signature === of.candidate.listing.signature
    if (isSame && (this.#ready || this.#starting || this.#retry || this.#gaveUpFor === of)) return
    if (!isSame) {
      void this.drop('it is of another version')
      this.#losses = []
    }
    this.#of = of
    this.#startIn(this.#notBefore - Date.now())
  }

  /** Whether one waits that was started from these files. */
  isReadyFor({ listing }: Candidate): boolean {
    return this.#ready !== undefined && !this.#ready.running.process.ended && this.#of?.candidate.listing.signature === listing.signature
  }

  /** The next one is not started before so many milliseconds have passed. */
  rest(milliseconds: number): void {
    this.#notBefore = Date.now() + milliseconds
  }

  /** The spare, to serve from now on; `undefined` when there is none that was started as it would be started now. */
  async take(candidate: Candidate): Promise<Running | undefined> {
    const ready = this.#ready
    if (!ready || !this.isReadyFor(candidate)) return undefined
    this.#letGo()
    const { running } = ready
    try {
      // The sandbox may have to be another one by now.
      const { launch } = await this.#around.prepare(candidate, running.directory)
      if (JSON.stringify(launch) === JSON.stringify(running.launch) && !running.process.ended) {
        ready.open()
        return running
      }
    } catch (error) {
      await running.process.stop('it may not run any more')
      throw error
    }
    await running.process.stop('it would be started differently now')
    return undefined
  }

  /** Stops it, and keeps none until the next `keep`. */
  async drop(reason: string): Promise<void> {
    this.#of = undefined
    clearTimeout(this.#retry)
    this.#retry = undefined
    const ready = this.#ready
    this.#letGo()
    await ready?.running.process.stop(reason)
    // One that is just starting sees that it is not wanted any more, and stops itself.
    await this.#starting
  }

  /** Ends it when it takes more memory than it may. */
  checkMemory(resident: number | undefined): void {
    this.residentBytes = resident
    if (resident === undefined || resident <= this.#around.limits.maxResidentBytes) return
    this.#around.onTrouble('its spare used more memory than it may and was ended')
    this.process?.kill()
  }

  #startIn(milliseconds: number): void {
    const of = this.#of
    if (milliseconds > 0) {
      this.#retry = setTimeout(() => {
        this.#retry = undefined
        this.#startIn(0)
      }, milliseconds).unref()
      return
    }
    if (!of) return
    const before = this.#starting
    const starting = (async () => {
      await before
      if (this.#of === of && !this.#ready) await this.#start(of)
    })().finally(() => {
      if (this.#starting === starting) this.#starting = undefined
    })
    this.#starting = starting
  }

  async #start(of: Running): Promise<void> {
    const { serve, open } = gated(this.#around.serve)
    let running: Running
    try {
      running = await this.#around.start(of.candidate, of.directory, serve)
    } catch (error) {
      this.#onLoss(of, (error as Error).message)
      return
    }
    if (this.#of !== of) {
      await running.process.stop('no spare is wanted any more')
      return
    }
    const liveness = new Liveness(running.process, this.#around.limits, {
      answered: () => undefined,
      missed: misses => {
        if (misses >= this.#around.limits.pingMisses) running.process.kill()
      },
    })
    this.#ready = { running, open, liveness }
    void running.process.exited.then(({ code, signal }) => {
      if (this.#ready?.running !== running) return
      this.#letGo()
      this.#onLoss(of, signal ?? `code ${String(code)}`)
    })
  }

  #letGo(): void {
    this.#ready?.liveness.stop()
    this.#ready = undefined
    this.residentBytes = undefined
  }

  /** One that ends while it waits is no crash of the plugin, but is started again by the same rules. */
  #onLoss(of: Running, why: string): void {
    if (this.#of !== of) return
    const { limits } = this.#around
    const now = Date.now()
    this.#losses = recentCrashes([...this.#losses, now], now, limits)
    const next = afterCrash(this.#losses, 0, limits)
    this.#around.onTrouble(
      next.restart
        ? `its spare ended (${why}); another is started in ${(next.delay / 1000).toFixed(1)} s`
        : `its spare ended ${next.crashes} times (${why}): none is kept until the plugin itself starts again`,
    )
    if (!next.restart) this.#gaveUpFor = of
    else this.#startIn(Math.max(next.delay, this.#notBefore - now))
  }
}

/** Answers and hears nothing but the log until `open`: what waits has no part in what the plugin does. */
const gated = ({ handlers, listeners }: Serve): { serve: Serve; open: () => void } => {
  let isOpen = false
  const guard = <T extends object>(entries: T, refuse: (method: string) => unknown): T =>
    Object.fromEntries(
      Object.entries(entries as Record<string, (...args: unknown[]) => unknown>).map(([method, act]) => [
        method,
        (...args: unknown[]) => (isOpen || method === 'log' ? act(...args) : refuse(method)),
      ]),
    ) as T
  return {
    serve: {
      handlers: guard(handlers, method => {
        throw new RpcError(RpcErrorCode.rejected, `${method}: this process waits in reserve and serves no channel`)
      }),
      listeners: guard(listeners, () => undefined),
    },
    open: () => {
      isOpen = true
    },
  }
}
