// A host in a process of its own, to be killed: hostProgram.ts TIER MODE
import type { TierName } from '../../core/host/launch/tier.js'
import { startHost } from './support.js'

const [, , tier, mode = 'behave'] = process.argv
const host = await startHost({ tiers: [tier as TierName], limits: { pingAfter: 60_000 } })
await host.add('orphan', mode)
await host.until('orphan', 'ready')
if (mode === 'busy-loop') void host.extract('orphan', { timeoutMs: 60_000 }).catch(() => undefined)
await new Promise(resolve => setTimeout(resolve, 100))
process.stdout.write(`data ${host.dataDir}\nready\n`)
