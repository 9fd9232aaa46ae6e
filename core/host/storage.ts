import { lstat, readdir } from 'node:fs/promises'
import { join } from 'node:path'

const BLOCK_BYTES = 512
/** Each file costs at least this much, so that empty ones are not free. */
const LEAST_BYTES = 4096

/** Bytes on disk below a directory, without following links. Counting ends once it is above `limit`. */
export const storedBytes = async (directory: string, limit: number): Promise<number> => {
  let sum = 0
  const left = [directory]
  for (let next = left.pop(); next !== undefined && sum <= limit; next = left.pop()) {
    // It may be gone by now, like any file below it: the plugin works meanwhile.
    const entries = await readdir(next, { withFileTypes: true }).catch(() => [])
    for (const entry of entries) {
      const path = join(entry.parentPath, entry.name)
      if (entry.isDirectory()) left.push(path)
      const { blocks } = await lstat(path).catch(() => ({ blocks: 0 }))
      sum += Math.max(LEAST_BYTES, blocks * BLOCK_BYTES)
      if (sum > limit) break
    }
  }
  return sum
}
