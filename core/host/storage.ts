import type { Dir } from 'node:fs'
import { lstat, opendir } from 'node:fs/promises'
import { basename, join } from 'node:path'

const BLOCK_BYTES = 512
/** Each file costs at least this much, so that empty ones are not free. */
const LEAST_BYTES = 4096
/** Entries read from the system at once. */
const BUFFERED = 256

/** What lies below directories: bytes on disk, and files with directories in number. */
export interface Stored {
  bytes: number
  entries: number
  /** A directory that nobody but the plugin can look into: what is in it is not counted. */
  hidden?: string
}

/** Measures without following links. It ends once it is above one of the limits: what is above is too much, however much. */
export const measureStored = async (directories: readonly string[], { bytes, entries }: Stored): Promise<Stored> => {
  const stored: Stored = { bytes: 0, entries: 0 }
  const left = [...directories]
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    const directory = await openDirectory(next, stored)
    if (!directory) continue
    for await (const entry of directory) {
      const path = join(next, entry.name)
      if (entry.isDirectory()) left.push(path)
      const { blocks } = await lstat(path).catch(() => ({ blocks: 0 }))
      stored.bytes += Math.max(LEAST_BYTES, blocks * BLOCK_BYTES)
      stored.entries += 1
      if (stored.bytes > bytes || stored.entries > entries) return stored
    }
  }
  return stored
}

/** `undefined`: it may be gone by now, like any file below it: the plugin works meanwhile. */
const openDirectory = async (path: string, stored: Stored): Promise<Dir | undefined> => {
  try {
    return await opendir(path, { bufferSize: BUFFERED })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EACCES') stored.hidden = basename(path)
    return undefined
  }
}
