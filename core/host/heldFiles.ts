import { opendir, readFile, readlink, stat } from 'node:fs/promises'

const BLOCK_BYTES = 512
/** Descriptors looked at, of all processes of one plugin together; what is beyond them is not counted. */
export const MAX_DESCRIPTORS = 4_096
const AT_ONCE = 32

/** What processes hold open that has no name any more: no look at directories finds it. In bytes. */
export interface Held {
  /** Files of memory (memfd), where no process has them mapped as resident memory already. */
  memory: number
  /** Deleted files on the device that was asked for. */
  stored: number
}

/** From /proc. What is mapped without being open, or on its way through a socket, does not show there. */
export const heldFiles = async (pids: readonly number[], device: number): Promise<Held> => {
  const seen = new Set<string>()
  const held: Held = { memory: 0, stored: 0 }
  let mapped = 0
  let left = MAX_DESCRIPTORS
  for (const pid of pids) {
    const before = held.memory
    for (const batch of inBatches(await descriptors(pid, left))) {
      left -= batch.length
      await Promise.all(batch.map(path => add(path, device, { seen, held })))
    }
    if (held.memory > before) mapped += await sharedResident(pid)
  }
  return { memory: Math.max(0, held.memory - mapped), stored: held.stored }
}

const add = async (path: string, device: number, { seen, held }: { seen: Set<string>; held: Held }): Promise<void> => {
  // It may be closed by now, like the process may be gone: the plugin works meanwhile.
  const link = await readlink(path).catch(() => '')
  if (!link.endsWith(' (deleted)')) return
  const file = await stat(path).catch(() => undefined)
  const key = `${file?.dev ?? ''}:${file?.ino ?? ''}`
  if (!file?.isFile() || file.nlink > 0 || seen.has(key)) return
  seen.add(key)
  if (link.startsWith('/memfd:')) held.memory += file.blocks * BLOCK_BYTES
  else if (file.dev === device) held.stored += file.blocks * BLOCK_BYTES
}

const descriptors = async (pid: number, limit: number): Promise<string[]> => {
  const paths: string[] = []
  try {
    for await (const { name } of await opendir(`/proc/${pid}/fd`)) {
      if (paths.length >= limit) break
      paths.push(`/proc/${pid}/fd/${name}`)
    }
  } catch {
    // It is gone, or another user's.
  }
  return paths
}

const inBatches = (paths: readonly string[]): string[][] =>
  Array.from({ length: Math.ceil(paths.length / AT_ONCE) }, (_, index) => paths.slice(index * AT_ONCE, (index + 1) * AT_ONCE))

/** Resident bytes of shared memory, which count among the process's own already. */
const sharedResident = async (pid: number): Promise<number> => {
  const status = await readFile(`/proc/${pid}/status`, 'utf8').catch(() => '')
  return Number(/^RssShmem:\s*(\d+) kB$/m.exec(status)?.[1] ?? 0) * 1024
}
