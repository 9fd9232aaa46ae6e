import { mkdir } from 'node:fs/promises'
import { EXPERIMENTAL_INTERFACES, WIRED_INTERFACES } from '../../sdk/manifest.js'
import type { Candidate } from './discovery.js'
import type { HostOptions } from './hostOptions.js'
import { chooseTier } from './launch/choice.js'
import type { Launch, Network, TierName } from './launch/tier.js'
import type { Places } from './places.js'
import { Unfit } from './policy.js'

const MAX_HEAP_MB = 192

interface PreparationNeeds {
  options: Pick<HostOptions, 'settings' | 'tiers'>
  places: Places
  warnOnce: (key: string, message: string) => void
}

/**
 * Picks the sandbox for a plugin whose files lie in `directory`, makes its own directories, and says how to start it.
 * Throws `Unfit` with the reason when no sandbox will do.
 */
export const prepareLaunch = async (
  { options, places, warnOnce }: PreparationNeeds,
  candidate: Candidate,
  directory: string,
): Promise<{ tier: TierName; launch: Launch }> => {
  const { minimumTier, allowUnconfined, experimental } = options.settings()
  const network = networkOf(candidate)
  const choice = await chooseTier({
    entry: candidate.entry,
    network,
    minimum: minimumTier,
    mayRunUnconfined: allowUnconfined.some(id => id.toLowerCase() === candidate.id.toLowerCase()),
    ...(options.tiers ? { available: options.tiers } : {}),
  })
  if ('refused' in choice) throw new Unfit(choice.refused, { dependsOnSettings: true })
  const dataDir = places.of('plugin-data', candidate.id)
  const exchangeDir = places.of('plugin-exchange', candidate.id)
  for (const own of [dataDir, exchangeDir]) await mkdir(own, { recursive: true, mode: 0o700 })
  const unused = whyUnused(candidate, experimental)
  if (unused !== undefined) warnOnce(candidate.id, `plugin ${candidate.id}: ${unused}; it runs all the same`)
  const launch = choice.tier.prepare({
    directory,
    dataDir,
    exchangeDir,
    entry: candidate.entry,
    network,
    hidden: [places.dataDir],
    ownDir: places.shown,
    hostFilter: choice.hostFilter,
    maxHeapMb: MAX_HEAP_MB,
  })
  return { tier: choice.tier.name, launch }
}

const whyUnused = ({ manifest: { pluginInterface } }: Candidate, experimental: boolean): string | undefined => {
  if (WIRED_INTERFACES.includes(pluginInterface)) return undefined
  if (!EXPERIMENTAL_INTERFACES.includes(pluginInterface)) return `nothing uses plugins of the interface ${pluginInterface} yet`
  return experimental
    ? undefined
    : `nothing uses plugins of the interface ${pluginInterface} yet, unless Service:Plugins:Experimental is switched on`
}

/** What the plugin may reach: as its manifest asks, else by its interface. */
export const networkOf = ({ manifest }: Candidate): Network => {
  const hosts = manifest.permissions?.net
  if (hosts === undefined) return { kind: manifest.pluginInterface === 'ChannelAdapter' ? 'open' : 'none' }
  return hosts.length === 0 ? { kind: 'none' } : { kind: 'hosts', hosts }
}
