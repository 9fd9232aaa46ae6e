import { watch } from 'node:fs'
import { basename, dirname } from 'node:path'
import { mkdirSync } from 'node:fs'
import type { Config } from './config.js'
import type { Log } from './log.js'

/** A change is read once the file has been left alone this long, in milliseconds. */
const SETTLE_MS = 150

/**
 * Reads the configuration file again whenever it changes. A bad file keeps the last good values and says what is
 * wrong. The directory is watched, not the file: editors and atomic writes replace the file. Returns the undo.
 */
export const watchConfig = (config: Config, log: Log): (() => void) => {
  const directory = dirname(config.file)
  mkdirSync(directory, { recursive: true, mode: 0o700 })
  let timer: NodeJS.Timeout | undefined
  const watcher = watch(directory, (_event, name) => {
    if (name !== null && name !== basename(config.file)) return
    clearTimeout(timer)
    timer = setTimeout(() => {
      reload(config, log)
    }, SETTLE_MS)
  })
  watcher.on('error', error => {
    log.warn({ err: error }, `changes of ${config.file} are no longer noticed: restart to apply them`)
  })
  return () => {
    clearTimeout(timer)
    watcher.close()
  }
}

const reload = (config: Config, log: Log): void => {
  try {
    const needRestart = config.reload()
    for (const key of needRestart) log.warn(`${key} has changed in ${config.file} and takes effect at the next start`)
  } catch (error) {
    log.error(`${(error as Error).message}. The last good configuration stays in force`)
  }
}
