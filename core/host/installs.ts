import { randomUUID } from 'node:crypto'
import { chmod, lstat, mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { z } from 'zod'
import { ARCHIVE_ENDING } from '../../sdk/archiveFormat.js'
import { syncDirectory, writeFileAtomically } from '../files.js'
import { idFileName } from './idFileName.js'

const InstalledVersion = z.object({ version: z.string(), digest: z.string().regex(/^[0-9a-f]{32}$/), installedAt: z.string() })
const Installation = z.object({ id: z.string(), current: InstalledVersion, previous: InstalledVersion.nullable() })

/** One version of a plugin that was installed. `digest` is what its archive is known by; see `digestOf`. */
export type InstalledVersion = z.infer<typeof InstalledVersion>
/** `previous` is what a rollback goes back to. */
export type Installation = z.infer<typeof Installation>

/** What stands in the directory: an installation and its archive, or why it cannot be read. */
export type InstallEntry = { installation: Installation; file: string } | { id: string; file: string; damaged: string }

const STATE_FILE = 'installed.json'
const REMOVED = '.removed-'

/**
 * The installed archives on disk: for each plugin a folder with its archives, named by their content, and one file that
 * says which of them counts. Replacing that file is what installs: a process killed at any point leaves the old or the
 * new version, whole. Changes must come one at a time.
 */
export class Installs {
  readonly #root: string

  constructor(root: string) {
    this.#root = root
  }

  async list(): Promise<InstallEntry[]> {
    const names = (await readdir(this.#root).catch(ignoreMissing)) ?? []
    const entries = await Promise.all(names.filter(name => !name.startsWith('.')).map(name => this.#read(join(this.#root, name), name)))
    return entries.filter(entry => entry !== undefined)
  }

  /** `undefined` also when it cannot be read: then it can still be installed over and removed. */
  async get(id: string): Promise<Installation | undefined> {
    const entry = await this.#read(this.#folderOf(id), id)
    return entry && 'installation' in entry ? entry.installation : undefined
  }

  async has(id: string): Promise<boolean> {
    return (await this.#read(this.#folderOf(id), id)) !== undefined
  }

  /** Where the archive of a version lies. */
  archiveOf(id: string, { digest }: InstalledVersion): string {
    return join(this.#folderOf(id), digest + ARCHIVE_ENDING)
  }

  /** Whether a plugin was found as an archive of this installation, in whatever version. */
  holds(id: string, source: string): boolean {
    return dirname(source) === this.#folderOf(id)
  }

  /** Takes the archive (moved away, on the same disk) as the plugin's version; the one until now is kept for a rollback. */
  async install(id: string, archive: string, version: InstalledVersion): Promise<Installation> {
    const folder = this.#folderOf(id)
    const known = await this.get(id)
    const isSame = known?.current.digest === version.digest
    await mkdir(folder, { recursive: true, mode: 0o700 })
    await chmod(archive, 0o600)
    await syncFile(archive)
    await rename(archive, this.archiveOf(id, version))
    await syncDirectory(folder)
    const installation: Installation = { id, current: version, previous: isSame ? known.previous : (known?.current ?? null) }
    await this.#write(installation)
    return installation
  }

  /** Makes the previous version count again; the one until now becomes the previous. */
  async rollBack({ id, current, previous }: Installation & { previous: InstalledVersion }): Promise<Installation> {
    const installation: Installation = { id, current: previous, previous: current }
    await this.#write(installation)
    return installation
  }

  async remove(id: string): Promise<void> {
    const removed = join(this.#root, `${REMOVED}${randomUUID()}`)
    await rename(this.#folderOf(id), removed)
    await syncDirectory(this.#root)
    await rm(removed, { recursive: true, force: true })
  }

  /** Removes what changes that were cut short have left behind. */
  async cleanUp(): Promise<void> {
    const names = (await readdir(this.#root).catch(ignoreMissing)) ?? []
    for (const name of names) {
      const folder = join(this.#root, name)
      const entry = name.startsWith('.') ? undefined : await this.#read(folder, name)
      if (!entry) await rm(folder, { recursive: true, force: true })
      else if ('installation' in entry) await this.#removeUnused(folder, entry.installation)
    }
  }

  async #write(installation: Installation): Promise<void> {
    const folder = this.#folderOf(installation.id)
    await writeFileAtomically(join(folder, STATE_FILE), `${JSON.stringify(installation, null, 2)}\n`)
    await syncDirectory(this.#root)
    await this.#removeUnused(folder, installation)
  }

  async #removeUnused(folder: string, { current, previous }: Installation): Promise<void> {
    const kept = new Set([STATE_FILE, ...[current, previous].flatMap(version => (version ? [version.digest + ARCHIVE_ENDING] : []))])
    const unused = (await readdir(folder)).filter(name => !kept.has(name))
    await Promise.all(unused.map(name => rm(join(folder, name), { recursive: true, force: true })))
  }

  /** `undefined`: there is none, or its installation was cut short before it counted. */
  async #read(folder: string, name: string): Promise<InstallEntry | undefined> {
    const file = join(folder, STATE_FILE)
    if (!(await lstat(file).catch(ignoreMissing))) return undefined
    try {
      const installation = Installation.parse(JSON.parse(await readFile(file, 'utf8')))
      return { installation, file: join(folder, installation.current.digest + ARCHIVE_ENDING) }
    } catch (error) {
      return { id: name, file, damaged: (error as Error).message }
    }
  }

  #folderOf(id: string): string {
    return join(this.#root, idFileName(id))
  }
}

const ignoreMissing = (error: unknown): undefined => {
  const { code } = error as NodeJS.ErrnoException
  if (code !== 'ENOENT' && code !== 'ENOTDIR') throw error
}

const syncFile = async (file: string): Promise<void> => {
  const handle = await open(file, 'r+')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
