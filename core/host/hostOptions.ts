import type { Log } from '../log.js'
import type { TierName } from './launch/tier.js'
import type { HostLimits } from './policy.js'

/** What an administrator may change while the gateway runs. */
export interface HostSettings {
  enabled: boolean
  /** Ids, without regard to case; empty: every plugin. */
  allowlist: readonly string[]
  directories: readonly string[]
  minimumTier: TierName
  allowUnconfined: readonly string[]
  /** Public keys whose archives are trusted, and whether only those may run. */
  trustedKeys: readonly string[]
  requireSignature: boolean
  /** The most that any plugin may store, whatever its manifest asks for. */
  maxDataDirectoryMb: number
  /** Plugins of `EXPERIMENTAL_INTERFACES` are used. */
  experimental: boolean
  /** Ids, without regard to case, of plugins that a second process stands by for. */
  warmSpares: readonly string[]
}

export interface HostOptions {
  dataDir: string
  log: Log
  settings: () => HostSettings
  limits?: Partial<HostLimits>
  /** Plugins that an administrator stopped: they stay so over a restart of the gateway. */
  stopped: { has(id: string): boolean; add(id: string): Promise<void>; remove(id: string): Promise<void> }
  /** Sandbox tiers to use; all by default. */
  tiers?: readonly TierName[]
}
