import type { Candidate } from './discovery.js'
import type { HostLimits } from './policy.js'
import type { Stored } from './storage.js'

const MIB = 1024 * 1024
const mib = (bytes: number): string => `${Math.round(bytes / MIB)} MiB`

/** What a plugin may store. */
export interface StorageAllowance extends Stored {
  /** The administrator gives less than the manifest asks for. In MiB. */
  cut?: { asked: number; given: number }
}

/** As the manifest asks, at most as the administrator gives (`maxMb`). */
export const storageAllowance = (
  { manifest }: Candidate,
  { maxStoredBytes, maxStoredEntries }: HostLimits,
  maxMb: number,
): StorageAllowance => {
  const asked = manifest.permissions?.dataDirectoryMb
  const wanted = asked === undefined ? maxStoredBytes : asked * MIB
  return {
    bytes: Math.min(wanted, maxMb * MIB),
    entries: maxStoredEntries,
    ...(asked !== undefined && asked > maxMb ? { cut: { asked, given: maxMb } } : {}),
  }
}

/** Why a process that uses so much memory is ended; `undefined`: it may. */
export const whyTooMuchMemory = (resident: number, { maxResidentBytes }: HostLimits): string | undefined =>
  resident > maxResidentBytes ? `it used ${mib(resident)} of memory, more than ${mib(maxResidentBytes)}, and was ended` : undefined

/** Why a process that has stored so much is ended; `undefined`: it may. */
export const whyTooMuchStored = (stored: Stored, { bytes, entries, cut }: StorageAllowance): string | undefined => {
  if (stored.hidden !== undefined) return `its directory ${stored.hidden} cannot be looked into, and it was ended: make it readable`
  if (stored.entries > entries) return `it stored more than ${entries} files and was ended: clear its data directory`
  if (stored.bytes <= bytes) return undefined
  const raise = cut ? 'Service:Plugins:MaxDataDirectoryMb' : 'permissions.dataDirectoryMb'
  return `it stored more than ${mib(bytes)} and was ended: clear its data directory, or raise ${raise}`
}
