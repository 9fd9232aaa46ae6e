import type { Candidate } from './discovery.js'
import type { HostLimits } from './policy.js'

const mib = (bytes: number): string => `${Math.round(bytes / 1024 / 1024)} MiB`

/** Bytes that a plugin may store. */
export const storageAllowance = ({ manifest }: Candidate, { maxStoredBytes }: HostLimits): number => {
  const megabytes = manifest.permissions?.dataDirectoryMb
  return megabytes === undefined ? maxStoredBytes : megabytes * 1024 * 1024
}

/** Why a process that uses so much memory is ended; `undefined`: it may. */
export const whyTooMuchMemory = (resident: number, { maxResidentBytes }: HostLimits): string | undefined =>
  resident > maxResidentBytes ? `it used ${mib(resident)} of memory, more than ${mib(maxResidentBytes)}, and was ended` : undefined

/** Why a process that has stored so much is ended; `undefined`: it may. */
export const whyTooMuchStored = (stored: number, allowance: number): string | undefined =>
  stored > allowance
    ? `it stored more than ${mib(allowance)} and was ended: clear its data directory, or raise permissions.dataDirectoryMb`
    : undefined
