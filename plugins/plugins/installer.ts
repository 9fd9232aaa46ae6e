import { randomUUID } from 'node:crypto'
import { rm } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { compare } from 'semver'
import { conflict, notFound, serviceUnavailable, validationFailed, type GatewayError } from '../../core/errors.js'
import { inspectArchive, type Candidate } from '../../core/host/discovery.js'
import type { PluginHostCore } from '../../core/host/host.js'
import type { Installation, InstalledVersion } from '../../core/host/installs.js'
import { StageError } from '../../core/host/stage.js'

const MAX_WAITING = 16
const RETRY_SECONDS = 5

/** Installs, rolls back and deletes plugins by the administrators' rules; one at a time, whoever asks. */
export class Installer {
  readonly #host: PluginHostCore
  readonly #scratch: string
  #turn: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor(host: PluginHostCore, dataDir: string) {
    this.#host = host
    this.#scratch = join(resolve(dataDir), 'tmp', 'installs')
  }

  /**
   * Checks the archive as a scan would, and installs it. `force` takes a lower version, or other content of the same
   * one. Rejects with `validation_failed` for what can be no plugin here, with `conflict` for the rules about versions.
   */
  install(archive: string, { force }: { force: boolean }): Promise<Installation> {
    return this.#inTurn(async () => {
      const candidate = await this.#inspect(archive)
      const { id } = candidate
      const next: InstalledVersion = {
        version: candidate.manifest.version,
        digest: candidate.listing.signature,
        installedAt: new Date().toISOString(),
      }
      const known = await this.#host.installs.get(id)
      this.#checkVersions(id, next, { current: known?.current, force })
      // The same once more also mends an archive that was damaged on disk.
      const isSame = known?.current.digest === next.digest
      const installation = await this.#host.installs.install(known?.id ?? id, archive, isSame ? known.current : next)
      await this.#host.scan()
      return installation
    })
  }

  /** Back to the version before; asked again, forth. */
  rollBack(id: string): Promise<Installation> {
    return this.#inTurn(async () => {
      const known = await this.#known(id)
      const { previous } = known
      if (!previous) throw conflict(`The plugin ${known.id} has no earlier version to go back to: it was installed once`)
      await this.#inspect(this.#host.installs.archiveOf(known.id, previous), why =>
        conflict(`The earlier version cannot come back: ${why}`),
      )
      this.#checkFolders(known.id, previous)
      const installation = await this.#host.installs.rollBack({ ...known, previous })
      await this.#host.scan()
      return installation
    })
  }

  /** Stops it and removes both its versions. Its data directory goes only with `deleteData`. */
  remove(id: string, { deleteData }: { deleteData: boolean }): Promise<void> {
    return this.#inTurn(async () => {
      const known = await this.#host.installs.get(id)
      if (!known && !(await this.#host.installs.has(id))) throw this.#notInstalled(id)
      const found = [...this.#host.rejections, ...this.#host.supervisors.map(({ candidate }) => candidate)]
      const other = found.find(one => isSameId(one.id, id) && !this.#host.installs.holds(id, one.source))
      if (deleteData && other)
        throw conflict(`The plugin ${id} lies in ${other.source} too, which may take over and needs the data: remove it there first`)
      await this.#host.installs.remove(id)
      await this.#host.scan()
      await this.#host.discard(id, { data: deleteData })
    })
  }

  /** What is wrong with it is the caller's to mend, so it stands in the answer. */
  async #inspect(archive: string, refuse = refuseFile): Promise<Candidate> {
    const unpackDir = join(this.#scratch, randomUUID())
    const { unpacker, signaturePolicy: policy } = this.#host
    try {
      const finding = await inspectArchive(archive, { unpackDir, policy, unpacker }).catch((error: unknown) => {
        throw isOfTheArchive(error) ? refuse(error.message) : error
      })
      if (!finding) throw refuse('its manifest.json names no pluginInterface: it is no plugin')
      if ('rejected' in finding) throw refuse(finding.rejected.reason)
      return finding.accepted
    } finally {
      await rm(unpackDir, { recursive: true, force: true })
    }
  }

  #checkVersions(id: string, next: InstalledVersion, { current, force }: { current: InstalledVersion | undefined; force: boolean }): void {
    this.#checkFolders(id, next)
    if (!current || force || current.digest === next.digest) return
    const order = compare(next.version, current.version)
    if (order < 0)
      throw conflict(
        `The plugin ${id} is installed in version ${current.version}, and ${next.version} is lower: roll back, or install with force=true`,
      )
    if (order === 0)
      throw conflict(
        `Version ${next.version} of the plugin ${id} is installed with other content: give the new one a higher version, or install with force=true`,
      )
  }

  /** Of one id the highest version runs, wherever it lies. */
  #checkFolders(id: string, { version }: InstalledVersion): void {
    const running = this.#host.supervisor(id)?.candidate
    if (running && !this.#host.installs.holds(id, running.source) && compare(running.manifest.version, version) > 0)
      throw conflict(
        `Version ${version} of the plugin ${id} would not run: ${running.source} holds version ${running.manifest.version}. Remove it there`,
      )
  }

  async #known(id: string): Promise<Installation> {
    const known = await this.#host.installs.get(id)
    if (!known) throw this.#notInstalled(id)
    return known
  }

  #notInstalled(id: string): GatewayError {
    const found = this.#host.supervisor(id)?.candidate ?? this.#host.rejections.find(rejection => isSameId(rejection.id, id))
    if (!found) return notFound('Plugin')
    return conflict(`The plugin ${found.id} was not installed: it comes from ${found.source}, so remove or replace it there`)
  }

  #inTurn<T>(action: () => Promise<T>): Promise<T> {
    if (this.#waiting >= MAX_WAITING) return Promise.reject(serviceUnavailable('Too many installations wait for their turn', RETRY_SECONDS))
    this.#waiting += 1
    const result = this.#turn.then(action)
    this.#turn = result
      .catch(() => undefined)
      .finally(() => {
        this.#waiting -= 1
      })
    return result
  }
}

const isOfTheArchive = (error: unknown): error is Error => error instanceof StageError || (error as NodeJS.ErrnoException).code === 'ENOENT'

const isSameId = (one: string, other: string): boolean => one.toLowerCase() === other.toLowerCase()

const refuseFile = (message: string): GatewayError => validationFailed([{ path: 'file', message }])
