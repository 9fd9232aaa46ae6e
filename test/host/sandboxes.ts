import type { TierName } from '../../core/host/launch/tier.js'
import { hasBubblewrap, hasDeno } from './support.js'

/** One way of confining a plugin, and why it cannot be had here. */
export interface Sandbox {
  name: string
  tiers: TierName[]
  net?: string[]
  missing: string | undefined
  /** What titles say of it. */
  note: string
}

export const noBubblewrap = hasBubblewrap ? undefined : 'bubblewrap is not installed'
export const noDeno = hasDeno ? undefined : 'deno is not installed'
/** Hosts that lead nowhere: an address for documentation. */
export const HELD = ['192.0.2.1:443']

export const skipped = (missing: string | undefined): string => (missing === undefined ? '' : ` (skipped: ${missing})`)

const sandbox = (name: string, tiers: TierName[], missing: string | undefined, net?: string[]): Sandbox => ({
  ...{ name, tiers, missing, note: skipped(missing) },
  ...(net ? { net } : {}),
})

export const sandboxes: readonly Sandbox[] = [
  sandbox('bubblewrap', ['bubblewrap'], noBubblewrap),
  sandbox('bubblewrap, for certain hosts by Deno inside', ['bubblewrap', 'deno'], noBubblewrap ?? noDeno, HELD),
  sandbox('bubblewrap, for certain hosts without Deno', ['bubblewrap'], noBubblewrap, HELD),
  sandbox('deno', ['deno'], noDeno),
  sandbox('deno, for certain hosts', ['deno'], noDeno, HELD),
  sandbox('node-permission', ['node-permission'], undefined),
]
