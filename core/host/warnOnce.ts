import type { Log } from '../log.js'

/** Warnings remembered; above that all are forgotten, and may come once more. */
const MAX_REMEMBERED = 10_000

/** Says each warning once, known by its key, though every scan meets its reason again. */
export const warnOnce = (log: Log): ((key: string, message: string) => void) => {
  const said = new Set<string>()
  return (key, message) => {
    if (said.has(key)) return
    if (said.size > MAX_REMEMBERED) said.clear()
    said.add(key)
    log.warn(message)
  }
}
