import { accessSync, constants } from 'node:fs'

const isExecutable = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

const setpriv = process.platform === 'linux' ? ['/usr/bin/setpriv', '/bin/setpriv'].find(isExecutable) : undefined

/** Said of a launch where a busy plugin does not notice that the gateway was killed. */
export const SURVIVES_KILL = 'may run on for a while when the gateway itself is killed'

/** Whether a killed gateway takes its plugins with it, however busy they are. Elsewhere the end of their stdin tells them. */
export const hasDeathSignal = setpriv !== undefined

/** The command, started so that it ends with the gateway where the system has a signal for that. */
export const dieWithParent = (command: readonly string[]): string[] =>
  setpriv === undefined ? [...command] : [setpriv, '--pdeathsig', 'KILL', '--', ...command]
