import { hostname } from 'node:os'
import { newId } from './id.js'

/** Who works on something on disk, and until when nobody else may. */
export interface Lease {
  by: string
  until: string
}

/** How long a gateway holds something without renewing it, in milliseconds, and how often it renews. */
const LEASE_MS = 20_000
export const RENEW_MS = 5_000

/** The holders of this process. */
const living = new Set<string>()

/** One running gateway, as a holder of leases: host, process and start. */
export class Holder {
  readonly id = [hostname(), process.pid, newId('run')].join(' ')

  constructor() {
    living.add(this.id)
  }

  lease(now = Date.now()): Lease {
    return { by: this.id, until: new Date(now + LEASE_MS).toISOString() }
  }

  close(): void {
    living.delete(this.id)
  }
}

/**
 * Whether a lease holds nobody back any more: it ran out, or its holder was a process of this machine that is gone,
 * so that a gateway that was killed and started again goes on at once. A lease too many that is taken over does no
 * harm: what its holder decides later no longer counts.
 */
export const isStale = ({ by, until }: Lease, now = Date.now()): boolean => {
  if (Date.parse(until) <= now) return true
  const [host, pid] = by.split(' ')
  if (host !== hostname()) return false
  return Number(pid) === process.pid ? !living.has(by) : !isAlive(Number(pid))
}

const isAlive = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    // EPERM: it lives, and belongs to someone else.
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
