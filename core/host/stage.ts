import { createHash } from 'node:crypto'
import { copyFile, lstat, mkdir, readdir, realpath, rename, rm } from 'node:fs/promises'
import { constants } from 'node:fs'
import { dirname, join, relative, sep } from 'node:path'

/** A plugin's files, in number and in bytes together. */
const MAX_FILES = 5_000
const MAX_BYTES = 256 * 1024 * 1024
const MAX_DEPTH = 20
/** Never part of what runs. */
const LEFT_OUT = new Set(['.git', '.DS_Store'])

/** Why a plugin's files cannot be used. Meant for the administrator. */
export class StageError extends Error {
  override readonly name: string = 'StageError'
}

/** An archive is not what its digests or its signature say. */
export class IntegrityError extends StageError {
  override readonly name = 'IntegrityError'
}

export interface Listing {
  /** Relative paths of the files. */
  files: string[]
  /** What these files are known by: another one is another version. An archive's is the digest of its content. */
  signature: string
  /** Changes when a file is added, removed, resized or written. */
  state: string
}

/** On Windows the mode says nothing about who may write. */
export const isWritableByAll = (mode: number): boolean => process.platform !== 'win32' && (mode & 0o002) !== 0

/** Lists a plugin's files. Throws `StageError` for links out of it, world-writable files and too much. */
export const listFiles = async (root: string): Promise<Listing> => {
  const real = await realpath(root)
  const files: { path: string; mark: string }[] = []
  let bytes = 0
  const walk = async (directory: string, depth: number): Promise<void> => {
    if (depth > MAX_DEPTH) throw new StageError(`directories are nested deeper than ${MAX_DEPTH}`)
    for (const name of (await readdir(directory)).sort()) {
      if (LEFT_OUT.has(name)) continue
      const path = join(directory, name)
      const stats = await lstat(path)
      const shown = relative(real, path)
      if (stats.isSymbolicLink()) await refuseEscape(real, path, shown)
      else if (isWritableByAll(stats.mode)) throw new StageError(`${shown} may be written by everyone: chmod o-w it`)
      if (stats.isDirectory()) await walk(path, depth + 1)
      else if (stats.isFile()) {
        bytes += stats.size
        files.push({ path: shown, mark: `${shown}\0${stats.size}\0${stats.mtimeMs}` })
        if (files.length > MAX_FILES || bytes > MAX_BYTES)
          throw new StageError(`it has more than ${MAX_FILES} files or ${MAX_BYTES / 1024 / 1024} MiB`)
      } else if (!stats.isSymbolicLink()) throw new StageError(`${shown} is neither a file nor a directory`)
    }
  }
  const { mode } = await lstat(real)
  if (isWritableByAll(mode)) throw new StageError('its directory may be written by everyone: chmod o-w it')
  await walk(real, 0)
  const hash = createHash('sha256')
  for (const { mark } of files) hash.update(mark).update('\n')
  const state = hash.digest('hex').slice(0, 24)
  return { files: files.map(({ path }) => path), signature: state, state }
}

/** Links inside stay out of the copy (npm's .bin is full of them); one that leads out condemns the plugin. */
const refuseEscape = async (root: string, path: string, shown: string): Promise<void> => {
  const target = await realpath(path).catch(() => '')
  if (!target.startsWith(root + sep)) throw new StageError(`${shown} is a link out of the plugin's directory`)
}

/**
 * Copies a plugin's files into `<stagingDir>/<signature>`, which never changes again: what runs is not what is being
 * edited. Throws `StageError` when the files change meanwhile; the change itself brings the next try.
 */
export const stageDirectory = async (source: string, listing: Listing, stagingDir: string): Promise<string> => {
  const target = join(stagingDir, listing.signature)
  if (await lstat(target).catch(() => undefined)) return target
  const draft = `${target}.partial`
  await rm(draft, { recursive: true, force: true })
  await mkdir(draft, { recursive: true, mode: 0o700 })
  for (const file of listing.files) {
    await mkdir(dirname(join(draft, file)), { recursive: true, mode: 0o700 })
    await copyFile(join(source, file), join(draft, file), constants.COPYFILE_FICLONE)
  }
  const after = await listFiles(source)
  if (after.state !== listing.state) {
    await rm(draft, { recursive: true, force: true })
    throw new StageError('its files are being changed')
  }
  await rename(draft, target)
  return target
}

/** Removes every staged copy but those in use. */
export const pruneStaged = async (stagingDir: string, inUse: ReadonlySet<string>): Promise<void> => {
  const names = await readdir(stagingDir).catch(() => [])
  await Promise.all(
    names.filter(name => !inUse.has(join(stagingDir, name))).map(name => rm(join(stagingDir, name), { recursive: true, force: true })),
  )
}
