/** The rules of supervision: pure functions over plain data, with their constants. */

/** Milliseconds, throughout. Tests pass shorter ones. */
export interface HostLimits {
  handshake: number
  /** Silence after which a plugin is pinged, time to answer, and how many misses end it. */
  pingAfter: number
  pingTimeout: number
  pingMisses: number
  /** The steps of a stop: the shutdown request, the end of stdin, SIGTERM; then SIGKILL to the group. */
  shutdownRequest: number
  endOfInput: number
  terminate: number
  /** How long the calls of a process that was replaced may go on. */
  drain: number
  /** A version that ends within this time of having replaced another gives way to it again. */
  probation: number
  backoffBase: number
  backoffMax: number
  /** Health after which earlier crashes no longer count for the back-off. */
  backoffReset: number
  crashWindow: number
  maxCrashes: number
  /** A change of files is taken up once they have been left alone this long. */
  settle: number
  /** Resident bytes above which a plugin is restarted, and how often that is looked at. */
  maxResidentBytes: number
  memoryCheck: number
  /** How often it is looked at what plugins have stored. */
  storageCheck: number
  /** Bytes on disk above which a plugin is ended, where its manifest does not say (`permissions.dataDirectoryMb`). */
  maxStoredBytes: number
  /** Files and directories above which it is ended, whatever their size. */
  maxStoredEntries: number
}

export const defaultLimits: HostLimits = {
  handshake: 10_000,
  pingAfter: 10_000,
  pingTimeout: 5_000,
  pingMisses: 3,
  shutdownRequest: 5_000,
  endOfInput: 2_000,
  terminate: 2_000,
  drain: 30_000,
  probation: 10_000,
  backoffBase: 1_000,
  backoffMax: 30_000,
  backoffReset: 60_000,
  crashWindow: 5 * 60_000,
  maxCrashes: 5,
  settle: 200,
  maxResidentBytes: 256 * 1024 * 1024,
  memoryCheck: 5_000,
  storageCheck: 5_000,
  maxStoredBytes: 256 * 1024 * 1024,
  maxStoredEntries: 100_000,
}

/** Why a plugin cannot run however often it is started: it rests until its files change. */
export class Unfit extends Error {
  /** Whether other settings of the gateway could let it run. */
  readonly dependsOnSettings: boolean

  constructor(message: string, { dependsOnSettings }: { dependsOnSettings: boolean }) {
    super(message)
    this.dependsOnSettings = dependsOnSettings
  }
}

/** What follows a crash: another start after `delay`, or none any more. */
export type AfterCrash = { restart: true; delay: number } | { restart: false; crashes: number }

/**
 * Decides from the times of the crashes (oldest first, the last one is now). `healthyFor` is how long the process
 * that crashed had been ready. `random` in [0, 1) spreads restarts that would otherwise fall together.
 */
export const afterCrash = (crashes: readonly number[], healthyFor: number, limits: HostLimits, random = Math.random()): AfterCrash => {
  const now = crashes.at(-1) ?? 0
  const recent = recentCrashes(crashes, now, limits)
  if (recent.length >= limits.maxCrashes) return { restart: false, crashes: recent.length }
  const inRow = healthyFor >= limits.backoffReset ? 1 : recent.length
  const full = Math.min(limits.backoffMax, limits.backoffBase * 2 ** (inRow - 1))
  return { restart: true, delay: Math.round(full * (0.75 + random * 0.25)) }
}

/** The crashes that still count; what is older is forgotten, which also bounds the list. */
export const recentCrashes = (crashes: readonly number[], now: number, limits: HostLimits): number[] =>
  crashes.filter(at => now - at < limits.crashWindow).slice(-limits.maxCrashes)
