import { readdir, readFile } from 'node:fs/promises'

const PAGE_BYTES = 4096

/** Resident bytes of each process group, from /proc; `undefined` where there is none. One look serves every plugin. */
export const residentByGroup = async (): Promise<Map<number, number> | undefined> => {
  if (process.platform !== 'linux') return undefined
  const resident = new Map<number, number>()
  const names = await readdir('/proc')
  await Promise.all(
    names
      .filter(name => /^\d+$/.test(name))
      .map(async name => {
        const stat = await readFile(`/proc/${name}/stat`, 'utf8').catch(() => '')
        // The name in parentheses may hold anything; what counts stands behind the last one.
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
        const group = Number(fields[2])
        const pages = Number(fields[21])
        if (group > 0 && pages >= 0) resident.set(group, (resident.get(group) ?? 0) + pages * PAGE_BYTES)
      }),
  )
  return resident
}
