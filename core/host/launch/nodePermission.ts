import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import type { Launch, LaunchRequest, Tier } from './tier.js'
import { pluginEnvironment, WATCHED_DISK, WHOLE_EXCHANGE } from './tier.js'
import { dieWithParent, hasDeathSignal, SURVIVES_KILL } from './reaper.js'
import { runProbe } from './runProbe.js'

/** Node 20 calls the flag experimental. */
export const permissionFlag = (version = process.versions.node): string => {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  return major > 23 || (major === 23 && minor >= 5) ? '--permission' : '--experimental-permission'
}

const flags = ({ directory, dataDir, exchangeDir }: LaunchRequest): string[] => {
  const writable = [dataDir, exchangeDir].map(path => realpathSync(path))
  return [
    permissionFlag(),
    '--disable-warning=ExperimentalWarning',
    '--disable-warning=SecurityWarning',
    ...[realpathSync(directory), ...writable].map(path => `--allow-fs-read=${path}/*`),
    ...writable.map(path => `--allow-fs-write=${path}/*`),
  ]
}

/** Node's own permission model: files, child processes, workers and add-ons. Everywhere, and an accident guard only. */
export const nodePermission: Tier = {
  name: 'node-permission',
  probe: () =>
    runProbe(process.execPath, [
      permissionFlag(),
      '-e',
      'try { require("fs").readFileSync("/etc/hostname") } catch { process.stdout.write("confined") }',
    ]),
  accepts: entry => entry.kind === 'javascript',
  prepare: (request): Launch => {
    const node = [
      process.execPath,
      ...flags(request),
      `--max-old-space-size=${request.maxHeapMb}`,
      join(realpathSync(request.directory), request.entry.file),
    ]
    const [command = '', ...args] = dieWithParent(node)
    return {
      command,
      args,
      env: pluginEnvironment(),
      cwd: realpathSync(request.dataDir),
      dataDirInPlugin: realpathSync(request.dataDir),
      exchangeDirInPlugin: realpathSync(request.exchangeDir),
      enforced: [
        'files outside its own directories',
        'child processes',
        'worker threads',
        'native add-ons',
        "the gateway's environment",
        'heap size',
      ],
      open: [
        'network',
        'signals to other processes of this user',
        'memory outside the heap (watched)',
        WATCHED_DISK,
        WHOLE_EXCHANGE,
        'deliberate escapes: Node calls its permission model a guard against accidents',
        ...(hasDeathSignal ? [] : [SURVIVES_KILL]),
      ],
    }
  },
}
