import { createHash } from 'node:crypto'

/** An id as a file name: short, the same for every case of its letters, and never another plugin's. */
export const idFileName = (id: string): string => {
  const lower = id.toLowerCase()
  if (/^[a-z0-9][a-z0-9-]{0,63}$/.test(lower)) return lower
  return `${lower.replaceAll(/[^a-z0-9]+/g, '-').slice(0, 40)}_${createHash('sha256').update(lower).digest('hex').slice(0, 16)}`
}
