import { readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { defaultLimits } from '../../core/host/policy.js'
import { hasBubblewrap, startHost, type TestHost } from '../host/support.js'
import { waitFor } from '../support/waitFor.js'
import { addEcho, callPlugin } from './calls.js'
import { row } from './measured.js'

const RELOADS = 200
const CALLS_PER_RELOAD = 50
const QUARTERS = 4

interface Held {
  heapMegabytes: number
  residentMegabytes: number
  /** Open files, what the event loop waits for, and listeners of the process. */
  files: number
  resources: number
  listeners: number
  /** Copies of the plugin's versions on disk. */
  copies: number
}

setFlagsFromString('--expose-gc')
const collectGarbage = runInNewContext('gc') as () => void

const count = async (directory: string): Promise<number> => (await readdir(directory).catch(() => [])).length

const measure = async (host: TestHost): Promise<Held> => {
  await waitFor('the replaced processes to be gone', async () => (await count(join(host.dataDir, 'plugin-versions', 'echo'))) === 1)
  for (let round = 0; round < 3; round++) {
    collectGarbage()
    await new Promise(resolve => setImmediate(resolve))
  }
  const { heapUsed, rss } = process.memoryUsage()
  return {
    heapMegabytes: heapUsed / 1024 / 1024,
    residentMegabytes: rss / 1024 / 1024,
    files: await count('/proc/self/fd'),
    resources: process.getActiveResourcesInfo().length,
    listeners: process.eventNames().reduce((sum, name) => sum + process.listenerCount(name), 0),
    copies: await count(join(host.dataDir, 'plugin-versions', 'echo')),
  }
}

const reload = async (host: TestHost, version: string): Promise<void> => {
  const manifest = { name: 'echo', version, pluginInterface: 'DocumentExtractor', supportedExtensions: ['.echo'] }
  await writeFile(join(host.plugins, 'echo', 'manifest.json'), JSON.stringify(manifest))
  await host.core.scan()
  await waitFor(version, () => host.core.supervisor('echo')!.current?.candidate.manifest.version === version).catch((error: unknown) => {
    throw new Error(`${host.core.supervisor('echo')!.state}: ${host.core.supervisor('echo')!.lastError ?? 'no error'}`, { cause: error })
  })
}

const describe = ({ heapMegabytes, residentMegabytes, files, resources, listeners, copies }: Held): string =>
  `${residentMegabytes.toFixed(0)} MB resident, ${heapMegabytes.toFixed(1)} MB heap, files ${files}, resources ${resources}, listeners ${listeners}, copies ${copies}`

/** What the gateway's process holds after each quarter of many reloads under calls, against what it held after the first. */
export const benchMemory = async (): Promise<void> => {
  const host = await startHost({ tiers: [hasBubblewrap ? 'bubblewrap' : 'node-permission'], limits: defaultLimits, begin: false })
  try {
    await addEcho(host)
    await host.core.start()
    await host.until('echo', 'ready')
    const call = callPlugin(host)
    let first: Held | undefined
    for (let quarter = 1; quarter <= QUARTERS; quarter++) {
      for (let n = 1; n <= RELOADS / QUARTERS; n++) {
        await Promise.all(Array.from({ length: CALLS_PER_RELOAD }, (_, each) => call(`${'x'.repeat(200)}${String(each)}`)))
        await reload(host, `1.${String(quarter)}.${String(n)}`)
      }
      const held = await measure(host)
      first ??= held
      const what = `Memory: heap after ${String((quarter * RELOADS) / QUARTERS)} reloads and ${String((quarter * RELOADS * CALLS_PER_RELOAD) / QUARTERS)} calls`
      const [now, before] = [held.heapMegabytes, first.heapMegabytes]
      row(what, `${now.toFixed(1)} MB`, `${before.toFixed(1)} MB`, now / before, `flat (${describe(held)})`)
    }
  } finally {
    await host.stop()
  }
}
