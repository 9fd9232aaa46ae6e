import { lstat, readdir, readFile, realpath, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { compare } from 'semver'
import { parseManifest, type Manifest } from '../../sdk/manifest.js'
import { ARCHIVE_ENDING, unpackArchive } from './archive.js'
import { findEntry, type Entry } from './entry.js'
import { isWritableByAll, listFiles, StageError, type Listing } from './stage.js'

const MAX_MANIFEST_BYTES = 256 * 1024
/** Plugins looked at in one scan directory; the rest is shown as left out. */
const MAX_CANDIDATES = 500

/** A plugin that may be started. */
export interface Candidate {
  id: string
  manifest: Manifest
  warnings: string[]
  /** The directory or archive that it was found as. */
  source: string
  /** Where its files are: the source itself, or the unpacked archive. */
  directory: string
  entry: Entry
  listing: Listing
}

/** What was found and may not be started, and why. */
export interface Rejection {
  id: string
  version?: string
  source: string
  reason: string
}

export interface Discovered {
  accepted: Candidate[]
  rejected: Rejection[]
}

/** What runs at the moment, and from where. */
export interface Served {
  id: string
  version: string
  source: string
}

interface DiscoverOptions {
  /** Where archives are unpacked. */
  unpackDir: string
  /** While the files of one of these are damaged it goes on from its staged copy, and no lower version of it takes its place. */
  served?: readonly Served[]
}

type Finding = { accepted: Candidate } | { rejected: Rejection } | undefined

/**
 * Looks through the scan directories, the most trusted first, without running anything. A child without a manifest, or
 * whose manifest is no plugin's, is skipped silently, and so is one whose name begins with a dot.
 */
export const discover = async (directories: readonly string[], { unpackDir, served = [] }: DiscoverOptions): Promise<Discovered> => {
  const findings: Finding[] = []
  const seen = new Set<string>()
  for (const directory of directories) {
    const { real, names, finding } = await listDirectory(directory)
    findings.push(finding)
    for (const name of names) {
      const source = join(directory, name)
      // A directory that is scanned by two paths holds each plugin once.
      if (seen.has(join(real, name))) continue
      seen.add(join(real, name))
      findings.push(await inspect(source, unpackDir))
    }
  }
  const rejected = findings.flatMap(finding => (finding && 'rejected' in finding ? [finding.rejected] : []))
  const accepted = findings.flatMap(finding => (finding && 'accepted' in finding ? [finding.accepted] : []))
  const unique = keepHighest(accepted)
  const held = holdBack(unique.accepted, rejected, served)
  return { accepted: held.accepted, rejected: [...rejected, ...unique.rejected, ...held.rejected] }
}

/** The names of a scan directory's children, and what is wrong with the directory itself. One that is not there is empty. */
const listDirectory = async (directory: string): Promise<{ real: string; names: string[]; finding: Finding }> => {
  const refuse = (reason: string): Finding => ({ rejected: { id: basename(directory), source: directory, reason } })
  try {
    const real = await realpath(directory)
    const isOpen = isWritableByAll((await stat(real)).mode)
    if (isOpen) return { real, names: [], finding: refuse('everyone may put plugins into this directory: chmod o-w it') }
    const names = (await readdir(real)).filter(name => !name.startsWith('.')).sort()
    const isTooLong = names.length > MAX_CANDIDATES
    const finding = isTooLong ? refuse(`it holds more than ${MAX_CANDIDATES} entries: the rest is left out`) : undefined
    return { real, names: names.slice(0, MAX_CANDIDATES), finding }
  } catch (error) {
    const isMissing = (error as NodeJS.ErrnoException).code === 'ENOENT'
    return { real: directory, names: [], finding: isMissing ? undefined : refuse(`it cannot be scanned: ${(error as Error).message}`) }
  }
}

const inspect = async (source: string, unpackDir: string): Promise<Finding> => {
  const name = basename(source)
  try {
    const stats = await lstat(source)
    if (stats.isFile() && name.endsWith(ARCHIVE_ENDING)) {
      if (isWritableByAll(stats.mode)) throw new StageError('the archive may be written by everyone: chmod o-w it')
      const directory = await unpackArchive(source, unpackDir)
      return await inspectDirectory(source, directory, undefined)
    }
    if (stats.isSymbolicLink()) return await inspectLink(source)
    return stats.isDirectory() ? await inspectDirectory(source, source, name) : undefined
  } catch (error) {
    // Whatever it is, it is this plugin's: a file that vanishes, one that cannot be read, a name that cannot be.
    return { rejected: { id: name, source, reason: (error as Error).message } }
  }
}

/** A link is never followed: its target may change under the gateway. One to nothing, or to some other file, is no candidate. */
const inspectLink = async (source: string): Promise<Finding> => {
  const target = await stat(source).catch(() => undefined)
  if (!target || (target.isFile() && !source.endsWith(ARCHIVE_ENDING))) return undefined
  return { rejected: { id: basename(source), source, reason: 'it is a link: move or copy the plugin itself here' } }
}

/** `name`: the folder's original name; an archive's is its manifest's. */
const inspectDirectory = async (source: string, directory: string, name: string | undefined): Promise<Finding> => {
  const json = await readManifest(directory)
  if (json === undefined) return undefined
  const parsed = parseManifest(json.value, { directoryName: name ?? basename(source, ARCHIVE_ENDING) })
  if (parsed.kind === 'notPlugin') return undefined
  if (parsed.kind === 'rejected') return { rejected: { id: parsed.name ?? name ?? basename(source), source, reason: parsed.reason } }
  const { manifest, warnings } = parsed
  try {
    const listing = await listFiles(directory)
    const entry = await findEntry(directory, name ?? manifest.name)
    return { accepted: { id: manifest.name, manifest, warnings, source, directory, entry, listing } }
  } catch (error) {
    return { rejected: { id: manifest.name, version: manifest.version, source, reason: (error as Error).message } }
  }
}

const readManifest = async (directory: string): Promise<{ value: unknown } | undefined> => {
  const file = join(directory, 'manifest.json')
  const stats = await lstat(file).catch(() => undefined)
  if (!stats) return undefined
  if (!stats.isFile()) throw new StageError('manifest.json is not a regular file')
  if (stats.size > MAX_MANIFEST_BYTES) throw new StageError(`manifest.json is larger than ${MAX_MANIFEST_BYTES} bytes`)
  try {
    return { value: JSON.parse((await readFile(file, 'utf8')).replace(/^\ufeff/, '')) as unknown }
  } catch (error) {
    throw new StageError(`manifest.json is not valid JSON: ${(error as Error).message}`)
  }
}

/** Of several with one id (without regard to case) the highest version stays, at equal versions the first found. */
const keepHighest = (candidates: readonly Candidate[]): Discovered => {
  const kept = new Map<string, Candidate>()
  const rejected: Rejection[] = []
  const reject = (loser: Candidate, winner: Candidate): void => {
    const { id, manifest, source } = loser
    rejected.push({
      id,
      version: manifest.version,
      source,
      reason: `the same id as ${winner.source}, which has version ${winner.manifest.version}`,
    })
  }
  for (const candidate of candidates) {
    const key = candidate.id.toLowerCase()
    const other = kept.get(key)
    if (other && compare(candidate.manifest.version, other.manifest.version) <= 0) reject(candidate, other)
    else {
      if (other) reject(other, candidate)
      kept.set(key, candidate)
    }
  }
  return { accepted: [...kept.values()], rejected }
}

/** Takes back what would replace a served plugin by the same or a lower version only because its own files are damaged now. */
const holdBack = (candidates: readonly Candidate[], rejections: readonly Rejection[], served: readonly Served[]): Discovered => {
  const damaged = new Set(rejections.map(({ source }) => source))
  const held = new Map(served.filter(({ source }) => damaged.has(source)).map(one => [one.id.toLowerCase(), one]))
  const accepted: Candidate[] = []
  const rejected: Rejection[] = []
  for (const candidate of candidates) {
    const { id, manifest, source } = candidate
    const holder = held.get(id.toLowerCase())
    if (!holder || compare(manifest.version, holder.version) > 0) accepted.push(candidate)
    else {
      const reason = `the same id as ${holder.source}, which is damaged at the moment and runs on with version ${holder.version}`
      rejected.push({ id, version: manifest.version, source, reason })
    }
  }
  return { accepted, rejected }
}
