import type { Candidate } from './discovery.js'
import type { Launch, TierName } from './launch/tier.js'
import type { PluginProcess } from './process.js'

/** A process that has shaken hands, with what it was started from. */
export interface Running {
  process: PluginProcess
  candidate: Candidate
  tier: TierName
  launch: Launch
  directory: string
}
