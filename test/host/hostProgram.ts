// A host in a process of its own, to be killed: hostProgram.ts TIERS MODES, both in one word, parted by commas
import type { TierName } from '../../core/host/launch/tier.js'
import { HELD } from './sandboxes.js'
import { startHost } from './support.js'

const [, , tierWords = '', modeWords = 'behave'] = process.argv
const tiers = tierWords.split(',') as TierName[]
const modes = modeWords.split(',')
const host = await startHost({ tiers, settings: { allowUnconfined: modes } })
// Certain hosts put Deno inside bubblewrap.
const more = { metadata: { seconds: '604' }, ...(tiers.length > 1 ? { permissions: { net: HELD } } : {}) }
for (const mode of modes) await host.add(mode, mode, more)
for (const mode of modes) await host.until(mode, 'ready')
if (modes.includes('busy-loop')) void host.extract('busy-loop', { timeoutMs: 60_000 }).catch(() => undefined)
await new Promise(resolve => setTimeout(resolve, 100))
process.stdout.write(`data ${host.dataDir}\nready\n`)
