import type { Log } from '../log.js'
import type { Candidate } from './discovery.js'
import type { Launch, TierName } from './launch/tier.js'
import type { PluginLog } from './pluginLog.js'
import type { HostLimits } from './policy.js'
import { PluginProcess, type ProcessOptions } from './process.js'
import type { Running } from './running.js'
import { Spare } from './spare.js'
import { StagedCopies } from './stagedCopies.js'
import { throttleLines } from './throttleLines.js'

/** What starting a plugin's processes takes. */
export interface StarterSurroundings {
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
}

/** Starts the processes of one plugin, each from a copy of its files that does not change, and keeps its spare. */
export class Starter {
  readonly spare: Spare
  readonly #id: string
  readonly #pluginLog: PluginLog
  readonly #around: StarterSurroundings
  readonly #copies: StagedCopies

  constructor(id: string, pluginLog: PluginLog, around: StarterSurroundings) {
    this.#id = id
    this.#pluginLog = pluginLog
    this.#around = around
    this.#copies = new StagedCopies(around.stagingDir, error => {
      around.log.warn({ err: error }, `old copies of the plugin ${id} could not be removed`)
    })
    this.spare = new Spare({
      limits: around.limits,
      serve: around.serve,
      isWanted: () => around.keepsSpare(),
      prepare: (files, directory) => around.prepare(files, directory),
      start: (files, directory, serve) => this.#startIn(files, directory, serve),
      onTrouble: message => {
        pluginLog.add('gateway', 'warn', message)
        around.log.warn(`plugin ${id}: ${message}`)
      },
    })
  }

  /**
   * A process that has shaken hands and taken over from `old`, if there is one, which still runs: with none, the spare
   * where it will do. Rejects with the new one gone. In both cases `settled` follows: its copy is safe from `prune` until then.
   */
  async start(candidate: Candidate, old: Running | undefined): Promise<Running> {
    const spare = old ? undefined : await this.spare.take(candidate)
    const next = spare ?? (await this.#startIn(candidate, await this.#copies.stage(candidate), this.#around.serve))
    try {
      await this.#around.handover(next, old)
      if (next.process.ended) throw new Error('it ended right after its handshake')
      return next
    } catch (error) {
      await next.process.stop('it could not take over')
      throw error
    }
  }

  /** What was started last is known as running, or is gone. */
  settled(): void {
    this.#copies.started()
  }

  /** Removes the copies of every version but these. */
  prune(inUse: readonly Candidate[]): void {
    this.#copies.prune(inUse)
  }

  async #startIn(candidate: Candidate, directory: string, serve: StarterSurroundings['serve']): Promise<Running> {
    const { tier, launch } = await this.#around.prepare(candidate, directory)
    const write = throttleLines(line => {
      this.#around.log.info({ stderr: line }, `plugin ${this.#id}`)
    })
    const onLine = (line: string): void => {
      this.#pluginLog.add('output', 'info', line)
      write(line)
    }
    const plugin = { id: candidate.id, version: candidate.manifest.version }
    const process = await PluginProcess.start(launch, { plugin, limits: this.#around.limits, ...serve, onLine })
    return { process, candidate, tier, launch, directory }
  }
}
