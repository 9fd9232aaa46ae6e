import type { Log } from '../log.js'

const intervalMs = 60_000

/** Removes expired documents every minute until the returned function is called. It keeps no process alive. */
export const startSweeping = (sweep: () => Promise<number>, log?: Pick<Log, 'warn'>): (() => void) => {
  const timer = setInterval(() => {
    sweep().catch((error: unknown) => log?.warn({ err: error }, 'Expired documents could not be removed; the next try is in a minute'))
  }, intervalMs)
  timer.unref()
  return () => {
    clearInterval(timer)
  }
}
