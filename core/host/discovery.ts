import { lstat, readdir, readFile, realpath, stat } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { findEntry, parseManifest, type Entry, type Manifest } from '../../sdk/manifest.js'
import { ARCHIVE_ENDING } from '../../sdk/archiveFormat.js'
import { unpackArchive, type UnpackedArchive } from './archive.js'
import { holdBack, keepHighest } from './duplicates.js'
import type { InstallEntry } from './installs.js'
import { judgeSignature, whyNotTrusted, type SignatureEvidence, type SignaturePolicy, type SignatureVerdict } from './signature.js'
import { IntegrityError, isWritableByAll, listFiles, StageError, type Listing } from './stage.js'
import type { Unpacker } from './unpacker.js'

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
  /** What its files prove about their origin. */
  evidence: SignatureEvidence
}

/** What was found and may not be started, and why. */
export interface Rejection {
  id: string
  version?: string
  source: string
  reason: string
  signature?: SignatureVerdict
}

export interface Discovered {
  accepted: Candidate[]
  rejected: Rejection[]
  /** What of `unpackDir` belongs to the archives that are there. */
  unpacked: Set<string>
}

/** What runs at the moment, and from where. */
export interface Served {
  id: string
  version: string
  source: string
}

interface DiscoverOptions {
  /** Archives that were installed: they come before what the directories hold. */
  installed?: readonly InstallEntry[]
  /** The most trusted first. */
  directories: readonly string[]
  /** Where archives are unpacked. */
  unpackDir: string
  unpacker: Unpacker
  policy: SignaturePolicy
  /** While the files of one of these are damaged it goes on from its staged copy, and no lower version of it takes its place. */
  served?: readonly Served[]
}

export type Finding = { accepted: Candidate } | { rejected: Rejection } | undefined

/**
 * Looks through the plugin directories without running anything. A child without a manifest, or whose manifest is no
 * plugin's, is skipped silently, and so is one whose name begins with a dot.
 */
export const discover = async (options: DiscoverOptions): Promise<Discovered> => {
  const scan: Scan = { ...options, unpacked: new Set() }
  const findings = await findAll(scan)
  const rejected = findings.flatMap(finding => (finding && 'rejected' in finding ? [finding.rejected] : []))
  const accepted = findings.flatMap(finding => (finding && 'accepted' in finding ? [finding.accepted] : []))
  const unique = keepHighest(accepted)
  const held = holdBack(unique.accepted, rejected, options.served ?? [])
  return { accepted: held.accepted, rejected: [...rejected, ...unique.rejected, ...held.rejected], unpacked: scan.unpacked }
}

interface ArchiveScan {
  unpackDir: string
  policy: SignaturePolicy
  unpacker: Unpacker
  unpacked: Set<string>
}

type Scan = DiscoverOptions & ArchiveScan

/**
 * Looks at one archive by itself, as it would be found; it must name its plugin. `undefined`: it is no plugin's. Throws
 * `StageError` for an archive that cannot be unpacked.
 */
export const inspectArchive = async (file: string, { unpackDir, unpacker, policy }: Omit<ArchiveScan, 'unpacked'>): Promise<Finding> => {
  const archive = await unpackArchive(file, unpackDir, unpacker)
  return inspectDirectory({ source: file, directoryName: '', policy, archive })
}

const findAll = async (scan: Scan): Promise<Finding[]> => {
  const findings: Finding[] = []
  const seen = new Set<string>()
  for (const entry of scan.installed ?? []) findings.push(await inspectInstalled(entry, scan))
  for (const directory of scan.directories) {
    const { real, names, finding } = await listDirectory(directory)
    findings.push(finding)
    for (const name of names) {
      // A directory that is scanned by two paths holds each plugin once.
      if (seen.has(join(real, name))) continue
      seen.add(join(real, name))
      findings.push(await inspect(join(directory, name), scan))
    }
  }
  return findings
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

/** Whatever goes wrong is this plugin's: a file that vanishes, one that cannot be read, a name that cannot be. */
const guarded = async ({ id, source }: { id: string; source: string }, look: () => Promise<Finding>): Promise<Finding> => {
  try {
    return await look()
  } catch (error) {
    const reason = (error as Error).message
    const signature = error instanceof IntegrityError ? { signature: { state: 'invalid' as const, reason } } : {}
    return { rejected: { id, source, reason, ...signature } }
  }
}

const inspect = (source: string, scan: Scan): Promise<Finding> =>
  guarded({ id: basename(source), source }, async () => {
    const stats = await lstat(source)
    const directoryName = basename(source)
    if (stats.isSymbolicLink()) return inspectLink(source)
    if (stats.isDirectory()) return inspectDirectory({ source, directoryName, policy: scan.policy })
    if (!stats.isFile() || !directoryName.endsWith(ARCHIVE_ENDING)) return undefined
    const archive = await openArchive(source, scan)
    return inspectDirectory({ source, directoryName: basename(source, ARCHIVE_ENDING), policy: scan.policy, archive })
  })

const inspectInstalled = (entry: InstallEntry, scan: Scan): Promise<Finding> => {
  const source = entry.file
  if ('damaged' in entry) return Promise.resolve({ rejected: { id: entry.id, source, reason: `it cannot be read: ${entry.damaged}` } })
  const { id, current } = entry.installation
  return guarded({ id, source }, async () => {
    const archive = await openArchive(source, scan)
    if (archive.digest !== current.digest) throw new IntegrityError('the installed archive was changed on disk: install it again')
    return inspectDirectory({ source, directoryName: id, policy: scan.policy, archive })
  })
}

const openArchive = async (file: string, { unpackDir, unpacker, unpacked }: ArchiveScan): Promise<UnpackedArchive> => {
  if (isWritableByAll((await lstat(file)).mode)) throw new StageError('the archive may be written by everyone: chmod o-w it')
  const archive = await unpackArchive(file, unpackDir, unpacker)
  unpacked.add(archive.place)
  return archive
}

/** A link is never followed: its target may change under the gateway. One to nothing, or to some other file, is no candidate. */
const inspectLink = async (source: string): Promise<Finding> => {
  const target = await stat(source).catch(() => undefined)
  if (!target || (target.isFile() && !source.endsWith(ARCHIVE_ENDING))) return undefined
  return { rejected: { id: basename(source), source, reason: 'it is a link: move or copy the plugin itself here' } }
}

interface Inspection {
  source: string
  /** What the manifest's name falls back to. */
  directoryName: string
  policy: SignaturePolicy
  archive?: UnpackedArchive
}

/** The entry file is named after the folder's original name; an archive's is its manifest's. */
const inspectDirectory = async ({ source, directoryName, policy, archive }: Inspection): Promise<Finding> => {
  const directory = archive?.directory ?? source
  const evidence = archive?.evidence ?? { kind: 'folder' }
  const json = await readManifest(directory)
  if (json === undefined) return undefined
  const parsed = parseManifest(json.value, { directoryName })
  if (parsed.kind === 'notPlugin') return undefined
  if (parsed.kind === 'rejected')
    return { rejected: { id: parsed.name ?? (directoryName || basename(source)), source, reason: parsed.reason } }
  const { manifest, warnings } = parsed
  try {
    const refusal = whyNotTrusted(evidence, policy)
    if (refusal !== undefined) throw new StageError(refusal)
    const listed = await listFiles(directory)
    // The list is what the copy is checked against, and so must be of the files that the manifest was read with.
    if (archive === undefined && (await markOf(directory)) !== json.mark) throw new StageError('its files are being changed')
    const listing = archive ? { ...listed, signature: archive.digest } : listed
    const entry = await findEntry(directory, archive ? manifest.name : directoryName)
    return { accepted: { id: manifest.name, manifest, warnings, source, directory, entry, listing, evidence } }
  } catch (error) {
    const { name: id, version } = manifest
    return { rejected: { id, version, source, reason: (error as Error).message, signature: judgeSignature(evidence, policy) } }
  }
}

const markOf = async (directory: string): Promise<string> => {
  const { ino, size, mtimeMs } = await lstat(join(directory, 'manifest.json'))
  return [ino, size, mtimeMs].join()
}

const readManifest = async (directory: string): Promise<{ value: unknown; mark: string } | undefined> => {
  const file = join(directory, 'manifest.json')
  const stats = await lstat(file).catch(() => undefined)
  if (!stats) return undefined
  if (!stats.isFile()) throw new StageError('manifest.json is not a regular file')
  if (stats.size > MAX_MANIFEST_BYTES) throw new StageError(`manifest.json is larger than ${MAX_MANIFEST_BYTES} bytes`)
  const mark = [stats.ino, stats.size, stats.mtimeMs].join()
  try {
    return { mark, value: JSON.parse((await readFile(file, 'utf8')).replace(/^\ufeff/, '')) as unknown }
  } catch (error) {
    throw new StageError(`manifest.json is not valid JSON: ${(error as Error).message}`)
  }
}
