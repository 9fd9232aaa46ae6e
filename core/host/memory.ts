import { readdir, readFile } from 'node:fs/promises'

const PAGE_BYTES = 4096

interface Usage {
  parent: number
  group: number
  bytes: number
}

/**
 * Resident bytes of each of these processes with everything it has started: its descendants, and its process group,
 * which a child may have left (setsid) or been orphaned in. From /proc; `undefined` where there is none.
 */
export const residentBytes = async (leaders: readonly number[]): Promise<Map<number, number> | undefined> => {
  if (process.platform !== 'linux') return undefined
  const usage = await readUsage()
  const owners = new Map(leaders.map(pid => [pid, pid]))
  /** The leader that a process belongs to; 0: none. */
  const ownerOf = (pid: number): number => {
    const path: number[] = []
    let owner: number | undefined
    for (let at = pid; owner === undefined;) {
      const known = owners.get(at)
      const next = usage.get(at)
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
  const resident = new Map(leaders.map(pid => [pid, 0]))
  for (const [pid, { bytes }] of usage) {
    const owner = ownerOf(pid)
    if (owner !== 0) resident.set(owner, (resident.get(owner) ?? 0) + bytes)
  }
  return resident
}

const readUsage = async (): Promise<Map<number, Usage>> => {
  const usage = new Map<number, Usage>()
  const names = await readdir('/proc')
  await Promise.all(
    names
      .filter(name => /^\d+$/.test(name))
      .map(async name => {
        const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
        if (stat === '') return
        // The name in parentheses may hold anything; what counts stands behind the last one.
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        usage.set(Number(name), { parent: Number(fields[1]), group: Number(fields[2]), bytes: Number(fields[21]) * PAGE_BYTES })
      }),
  )
  return usage
}
