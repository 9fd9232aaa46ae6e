import PQueue from 'p-queue'
import { discover, type Candidate, type Rejection, type Served } from './discovery.js'
import type { HostOptions } from './hostOptions.js'
import type { Installation, Installs } from './installs.js'
import type { Places } from './places.js'
import { whyNotTrusted, type SignaturePolicy } from './signature.js'
import { pruneStaged } from './stage.js'
import type { Supervisor } from './supervisor.js'
import type { Unpacker } from './unpacker.js'

/** Plugins that start at once: more only fight for the processors. */
const STARTS_AT_ONCE = 3

interface ReconcilerNeeds {
  options: Pick<HostOptions, 'settings' | 'stopped'>
  places: Places
  installs: Installs
  unpacker: Unpacker
  directories: () => string[]
  signaturePolicy: () => SignaturePolicy
  /** For a plugin that was not there before. */
  supervise: (candidate: Candidate) => Supervisor
  onForgotten: (id: string) => void
  warnOnce: (key: string, message: string) => void
}

/** The plugins that there are. Makes what runs agree with the files, the settings and the administrator's wishes. */
export class Reconciler {
  rejections: readonly Rejection[] = []
  readonly #needs: ReconcilerNeeds
  readonly #supervisors = new Map<string, Supervisor>()
  /** What the last look found for it: whoever waits for his turn to start takes up that. */
  readonly #found = new WeakMap<Supervisor, Candidate>()
  readonly #starts = new PQueue({ concurrency: STARTS_AT_ONCE })
  #installations = new Map<string, Installation>()
  #stopped = false

  constructor(needs: ReconcilerNeeds) {
    this.#needs = needs
  }

  get supervisors(): Supervisor[] {
    return [...this.#supervisors.values()]
  }

  supervisor(id: string): Supervisor | undefined {
    return this.#supervisors.get(id.toLowerCase())
  }

  /** Of a plugin that was installed, as of the last look. */
  installation(id: string): Installation | undefined {
    return this.#installations.get(id.toLowerCase())
  }

  /** The files of it that the last look found. */
  newest(supervisor: Supervisor): Candidate {
    return this.#found.get(supervisor) ?? supervisor.candidate
  }

  isAllowed(id: string): boolean {
    const { allowlist } = this.#needs.options.settings()
    return allowlist.length === 0 || allowlist.some(allowed => allowed.toLowerCase() === id.toLowerCase())
  }

  /** Nothing is started any more; what runs goes on. */
  stop(): void {
    this.#stopped = true
    this.#starts.clear()
  }

  /** Looks through the directories and makes what runs agree with them and with the settings. */
  async look(): Promise<void> {
    const { places, installs, unpacker } = this.#needs
    const policy = this.#needs.signaturePolicy()
    const served = this.#served(policy)
    const installed = await installs.list()
    const { accepted, rejected, unpacked } = await discover({
      installed,
      directories: this.#needs.directories(),
      unpackDir: places.unpacked,
      unpacker,
      policy,
      served,
    })
    if (this.#stopped) return
    this.#installations = new Map(
      installed.flatMap(entry => ('installation' in entry ? [[entry.installation.id.toLowerCase(), entry.installation]] : [])),
    )
    await pruneStaged(places.unpacked, unpacked)
    this.rejections = rejected
    for (const { id, source, reason } of rejected)
      this.#needs.warnOnce(`${source}\0${reason}`, `plugin ${id} in ${source} is rejected: ${reason}`)
    await this.#settleMissing(new Set(accepted.map(({ id }) => id.toLowerCase())), policy)
    for (const candidate of accepted) this.#reconcile(candidate)
  }

  /** What an interruption of its files must not replace. */
  #served(policy: SignaturePolicy): Served[] {
    const isUp = ({ state, candidate }: Supervisor): boolean =>
      !['discovered', 'disabled', 'stopped', 'failed'].includes(state) && whyNotTrusted(candidate.evidence, policy) === undefined
    return this.supervisors.filter(isUp).map(({ id, candidate }) => ({ id, version: candidate.manifest.version, source: candidate.source }))
  }

  /** A plugin whose files are damaged right now keeps running from its staged copy; one that is gone stops. */
  async #settleMissing(found: ReadonlySet<string>, policy: SignaturePolicy): Promise<void> {
    const rejectionOf = ({ candidate }: Supervisor): Rejection | undefined =>
      this.rejections.find(({ source }) => source === candidate.source)
    const missing = this.supervisors.filter(supervisor => !found.has(supervisor.id.toLowerCase()))
    const mayStay = (supervisor: Supervisor): boolean =>
      rejectionOf(supervisor) !== undefined && whyNotTrusted(supervisor.candidate.evidence, policy) === undefined
    const gone = missing.filter(supervisor => !mayStay(supervisor))
    await Promise.all(gone.map(supervisor => this.#forget(supervisor, rejectionOf(supervisor)?.reason ?? 'its files are gone')))
    for (const supervisor of missing) {
      const rejection = rejectionOf(supervisor)
      if (rejection && mayStay(supervisor)) supervisor.lastError = `its changed files are rejected: ${rejection.reason}`
    }
  }

  async #forget(supervisor: Supervisor, reason: string): Promise<void> {
    await supervisor.stop('stopped', reason)
    this.#supervisors.delete(supervisor.id.toLowerCase())
    this.#needs.onForgotten(supervisor.id)
  }

  /** Makes one plugin agree with its files, the settings and the administrator's wish; starting it takes its turn. */
  #reconcile(candidate: Candidate): void {
    const supervisor = this.supervisor(candidate.id) ?? this.#add(candidate)
    for (const warning of candidate.warnings) this.#needs.warnOnce(`${candidate.source}\0${warning}`, `plugin ${candidate.id}: ${warning}`)
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
      await supervisor.run(this.newest(supervisor))
    })
  }

  #add(candidate: Candidate): Supervisor {
    const supervisor = this.#needs.supervise(candidate)
    this.#supervisors.set(candidate.id.toLowerCase(), supervisor)
    return supervisor
  }

  /** Why a plugin may not run now; `undefined`: it may. */
  #mustRest(id: string): { state: 'disabled' | 'stopped'; reason: string } | undefined {
    const { settings, stopped } = this.#needs.options
    if (!settings().enabled) return { state: 'disabled', reason: 'Service:Plugins:Enabled is false' }
    if (!this.isAllowed(id)) return { state: 'disabled', reason: 'it is not on the allow-list' }
    return stopped.has(id) ? { state: 'stopped', reason: 'stopped by an administrator' } : undefined
  }
}
