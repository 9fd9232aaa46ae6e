import { mkdirSync, readFileSync, renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

/** V8 takes half of the machine's memory for its heap, but never less than 256 MiB. */
const LEAST_MEMORY_MB = 512

/**
 * The /proc/meminfo of a machine so small that V8 keeps its heap to about `maxHeapMb` by itself. A flag would say it
 * more directly, but with any V8 flag Node compiles its own modules anew instead of taking what was compiled with it:
 * measured, 9 ms more at each start of 27.
 */
const describeMachine = (maxHeapMb: number): string => {
  const kilobytes = Math.max(2 * maxHeapMb, LEAST_MEMORY_MB) * 1024
  const lines = { MemTotal: kilobytes, MemFree: kilobytes, MemAvailable: kilobytes, Buffers: 0, Cached: 0, SwapTotal: 0, SwapFree: 0 }
  return Object.entries(lines)
    .map(([name, value]) => `${`${name}:`.padEnd(16)}${String(value).padStart(8)} kB\n`)
    .join('')
}

/** A file to be shown as /proc/meminfo, written into a directory that no plugin can write. */
export const shownMemory = (directory: string, maxHeapMb: number): string => {
  const file = join(directory, `meminfo-${maxHeapMb}`)
  const content = describeMachine(maxHeapMb)
  if (readIfThere(file) === content) return file
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  const unfinished = `${file}.${process.pid}.tmp`
  writeFileSync(unfinished, content)
  renameSync(unfinished, file)
  return file
}

const readIfThere = (file: string): string | undefined => {
  try {
    return readFileSync(file, 'utf8')
  } catch {
    // It is written now.
    return undefined
  }
}
