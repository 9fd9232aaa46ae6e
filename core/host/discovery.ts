import { lstat, readdir, readFile, realpath } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { compare } from 'semver'
import { findEntry, parseManifest, type Entry, type Manifest } from '../../sdk/manifest.js'
import { ARCHIVE_ENDING, unpackArchive } from './archive.js'
import { listFiles, StageError, type Listing } from './stage.js'

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

type Finding = { accepted: Candidate } | { rejected: Rejection } | undefined

/**
 * Looks through the scan directories, the most trusted first, without running anything. Archives are unpacked below
 * `unpackDir`. A child without a manifest, or whose manifest is no plugin's, is skipped silently.
 */
export const discover = async (directories: readonly string[], unpackDir: string): Promise<Discovered> => {
  const findings: Finding[] = []
  const seen = new Set<string>()
  for (const directory of directories) {
    const names = (await readdir(directory).catch(() => [])).sort()
    if (names.length > MAX_CANDIDATES)
      findings.push({
        rejected: {
          id: basename(directory),
          source: directory,
          reason: `it holds more than ${MAX_CANDIDATES} entries: the rest is left out`,
        },
      })
    for (const name of names.slice(0, MAX_CANDIDATES)) {
      const source = join(directory, name)
      const real = await realpath(source).catch(() => undefined)
      if (real === undefined || seen.has(real)) continue
      seen.add(real)
      findings.push(await inspect(source, unpackDir))
    }
  }
  const rejected = findings.flatMap(finding => (finding && 'rejected' in finding ? [finding.rejected] : []))
  const accepted = findings.flatMap(finding => (finding && 'accepted' in finding ? [finding.accepted] : []))
  const unique = keepHighest(accepted)
  return { accepted: unique.accepted, rejected: [...rejected, ...unique.rejected] }
}

const inspect = async (source: string, unpackDir: string): Promise<Finding> => {
  const name = basename(source)
  try {
    const stats = await lstat(source)
    if (stats.isFile() && name.endsWith(ARCHIVE_ENDING)) {
      const directory = await unpackArchive(source, unpackDir)
      return await inspectDirectory(source, directory, undefined)
    }
    if (stats.isSymbolicLink()) return { rejected: { id: name, source, reason: 'it is a link: move or copy the plugin itself here' } }
    return stats.isDirectory() && !name.startsWith('.') ? await inspectDirectory(source, source, name) : undefined
  } catch (error) {
    // Whatever it is, it is this plugin's: a file that vanishes, one that cannot be read, a name that cannot be.
    return { rejected: { id: name, source, reason: (error as Error).message } }
  }
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
    return { value: JSON.parse(await readFile(file, 'utf8')) as unknown }
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
