import type { Entry } from '../../../sdk/manifest.js'
import { bubblewrap } from './bubblewrap.js'
import { deno, findDeno } from './deno.js'
import { nodePermission } from './nodePermission.js'
import { PROBE_TIMED_OUT } from './runProbe.js'
import { TIERS, type Network, type Tier, type TierName } from './tier.js'
import { unconfined } from './unconfined.js'

/** The tiers, strongest first. */
const tiers: readonly Tier[] = [bubblewrap, deno, nodePermission]

/** What each tier's probe said; probes that end in time run once in a process. */
const probes = new Map<TierName, Promise<string | undefined>>()

const probe = (tier: Tier): Promise<string | undefined> => {
  const known = probes.get(tier.name)
  if (known) return known
  const probing = tier.probe().then(failure => {
    if (failure === PROBE_TIMED_OUT) probes.delete(tier.name)
    return failure
  })
  probes.set(tier.name, probing)
  return probing
}

export interface TierWish {
  entry: Entry
  network: Network
  /** The weakest tier that the administrator lets plugins run in. */
  minimum: TierName
  /** The administrator allowed this plugin by name to run without confinement. */
  mayRunUnconfined: boolean
  /** Only these are looked at; all by default. */
  available?: readonly TierName[]
}

/** `hostFilter`: see `LaunchRequest`. */
export type TierChoice = { tier: Tier; hostFilter?: string | undefined } | { refused: string }

/** The strongest tier that works here, can hold this program, and is not below the minimum. */
export const chooseTier = async ({ entry, network, minimum, mayRunUnconfined, available = TIERS }: TierWish): Promise<TierChoice> => {
  const reasons: string[] = []
  for (const tier of tiers.filter(({ name }) => available.includes(name))) {
    if (TIERS.indexOf(tier.name) > TIERS.indexOf(minimum))
      reasons.push(`${tier.name} is below Service:Plugins:Sandbox:Minimum (${minimum})`)
    else if (!tier.accepts(entry)) reasons.push(`${tier.name} can confine JavaScript only`)
    else {
      const failure = await probe(tier)
      // Not in a weaker one only because the machine is busy right now.
      if (failure === PROBE_TIMED_OUT) throw new Error(`${tier.name}: ${failure}`)
      if (failure === undefined) return { tier, hostFilter: await hostFilterFor(tier, entry, network, available) }
      reasons.push(`${tier.name} does not work here: ${failure}`)
    }
  }
  if (mayRunUnconfined && available.includes('none')) return { tier: unconfined }
  return {
    refused: `no sandbox here can hold this program: ${reasons.join('; ')}. Install bubblewrap, or allow the plugin by name in Service:Plugins:Sandbox:AllowUnconfined`,
  }
}

/** bubblewrap has the whole network or none. A JavaScript plugin that asks for certain hosts runs in Deno inside it. */
const hostFilterFor = async (tier: Tier, entry: Entry, network: Network, available: readonly TierName[]): Promise<string | undefined> => {
  const isWanted = tier === bubblewrap && network.kind === 'hosts' && deno.accepts(entry) && available.includes('deno')
  if (!isWanted) return undefined
  const failure = await probe(deno)
  if (failure === PROBE_TIMED_OUT) throw new Error(`deno: ${failure}`)
  return failure === undefined ? findDeno() : undefined
}
