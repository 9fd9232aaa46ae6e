import { readdir, readFile } from 'node:fs/promises'

const PAGE_BYTES = 4096

interface Process {
  parent: number
  group: number
  bytes: number
}

/** What a process is together with everything that it has started. */
export interface Tree {
  pids: number[]
  /** Resident bytes of all of them. */
  resident: number
}

/**
 * Each of these processes with everything it has started: its descendants, and its process group, which a child may
 * have left (setsid) or been orphaned in. From /proc; `undefined` where there is none.
 */
export const processTrees = async (leaders: readonly number[]): Promise<Map<number, Tree> | undefined> => {
  if (process.platform !== 'linux') return undefined
  const processes = await readProcesses()
  const owners = new Map(leaders.map(pid => [pid, pid]))
  /** The leader that a process belongs to; 0: none. */
  const ownerOf = (pid: number): number => {
    const path: number[] = []
    let owner: number | undefined
    for (let at = pid; owner === undefined;) {
      const known = owners.get(at)
      const next = processes.get(at)
      if (known !== undefined) owner = known
      else if (!next || path.includes(at)) owner = 0
      else {
        path.push(at)
        if (owners.get(next.group) === next.group) owner = next.group
        at = next.parent
      }
    }
    for (const seen of path) owners.set(seen, owner)
    return owner
  }
  const trees = new Map<number, Tree>(leaders.map(pid => [pid, { pids: [], resident: 0 }]))
  for (const [pid, { bytes }] of processes) {
    const tree = trees.get(ownerOf(pid))
    if (!tree) continue
    tree.pids.push(pid)
    tree.resident += bytes
  }
  return trees
}

const readProcesses = async (): Promise<Map<number, Process>> => {
  const processes = new Map<number, Process>()
  const names = await readdir('/proc')
  await Promise.all(
    names
      .filter(name => /^\d+$/.test(name))
      .map(async name => {
        const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
        if (stat === '') return
        // The name in parentheses may hold anything; what counts stands behind the last one.
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        processes.set(Number(name), { parent: Number(fields[1]), group: Number(fields[2]), bytes: Number(fields[21]) * PAGE_BYTES })
      }),
  )
  return processes
}
