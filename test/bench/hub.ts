import { bundlePrograms } from './bundle.js'
import { benchCalls } from './hub/calls.js'
import { benchDurable } from './hub/durable.js'
import { benchIdle } from './hub/idle.js'

const parts: Record<string, (directory: string) => Promise<void>> = { calls: benchCalls, durable: benchDurable, idle: benchIdle }

/** The node hub. `HUB_PARTS=calls,durable,idle` chooses; `hub/bench.ts` has the sizes. */
export const benchHub = async (): Promise<void> => {
  const { directory, remove } = await bundlePrograms('hub/server.ts', 'hub/clients.ts')
  const wanted = process.env.HUB_PARTS?.split(',')
  try {
    for (const [name, part] of Object.entries(parts)) if (wanted?.includes(name) ?? true) await part(directory)
  } finally {
    await remove()
  }
}
