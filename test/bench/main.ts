// Everything that is measured, each side by side with its bare peer in this one run: `npm run bench [rest|calls|start|host|memory|store|documents|hub|cluster]`
import { row } from './measured.js'
import { benchDocuments } from './documents.js'
import { benchCluster } from './cluster.js'
import { benchMemory } from './memory.js'
import { benchCalls } from './calls.js'
import { benchHost } from './host.js'
import { benchHub } from './hub.js'
import { benchRest } from './rest.js'
import { benchStart } from './start.js'
import { measureStore } from './store.js'

const benchStore = async (): Promise<void> => {
  for (const { work, bare, store, ratio } of await measureStore())
    row(`Store: ${work} / bare SQLite`, `${store.toFixed(0)}/s`, `${bare.toFixed(0)}/s`, ratio, '')
}

const benches: Record<string, () => Promise<void>> = {
  rest: benchRest,
  calls: benchCalls,
  start: benchStart,
  host: benchHost,
  memory: benchMemory,
  store: benchStore,
  documents: benchDocuments,
  hub: benchHub,
  cluster: benchCluster,
}

const wanted = process.argv.slice(2)
process.stdout.write(
  `${'median of interleaved runs'.padEnd(52)} ${'ours'.padStart(12)} ${'bare'.padStart(12)} ${'ratio'.padStart(7)}   goal\n`,
)
for (const [name, bench] of Object.entries(benches)) if (wanted.length === 0 || wanted.includes(name)) await bench()
