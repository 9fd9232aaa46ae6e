import { MAX_DESCRIPTORS } from '../heldFiles.js'
import type { Entry } from '../../../sdk/manifest.js'

/** How far a plugin is confined, strongest first. */
export const TIERS = ['bubblewrap', 'deno', 'node-permission', 'none'] as const
export type TierName = (typeof TIERS)[number]

/** A plugin about to be started. */
export interface LaunchRequest {
  /** The staged copy of the plugin's files, read only. */
  directory: string
  /** The plugin's own writable directory. */
  dataDir: string
  /** Where files that travel with calls are; writable, and not the plugin's to replace. */
  exchangeDir: string
  entry: Entry
  network: Network
  /** Directories that a sandbox which shows the system's files must not show. */
  hidden: readonly string[]
  /** Where the gateway keeps files that a sandbox shows; no plugin can write there. */
  ownDir: string
  maxHeapMb: number
  /** A Deno that holds the plugin to its hosts inside a tier that cannot do it alone. */
  hostFilter?: string | undefined
}

/** What a plugin may reach: nothing, everything, or what its manifest lists. */
export type Network = { kind: 'none' } | { kind: 'open' } | { kind: 'hosts'; hosts: string[] }

/** A program to start, and what holds of it. */
export interface Launch {
  command: string
  args: string[]
  env: Record<string, string>
  cwd: string
  /** The plugin's data and exchange directories as the plugin sees them. */
  dataDirInPlugin: string
  exchangeDirInPlugin: string
  /** What this tier keeps from the plugin, and what it does not. Shown to the administrator. */
  enforced: string[]
  open: string[]
}

export interface Tier {
  readonly name: TierName
  /** Whether it works on this machine; `undefined` when it does, else why not. Looked at once. */
  probe(): Promise<string | undefined>
  /** Whether it can start this kind of program. */
  accepts(entry: Entry): boolean
  prepare(request: LaunchRequest): Launch
}

/** Said where a program can make files of memory. */
export const WATCHED_MEMORY = `memory (watched: resident, and in files of memory that its first ${MAX_DESCRIPTORS} descriptors hold)`

/** What no tier takes from a plugin: published with every one of them, with what the watch of its use cannot see. */
export const ALWAYS_OPEN = [
  `disk space (watched: stored files, and deleted ones that its first ${MAX_DESCRIPTORS} descriptors hold)`,
  // What a process may open is settled when it starts, before there is a call.
  'its exchange directory as a whole: the documents of all of its calls under way',
  'processor time, and open files up to the limit of the system for a process',
]

/** The few variables that a plugin gets; nothing of the gateway's own environment beside them. */
export const pluginEnvironment = (): Record<string, string> => ({
  LANG: 'C.UTF-8',
  TZ: process.env.TZ ?? 'UTC',
  NODE_ENV: 'production',
})
