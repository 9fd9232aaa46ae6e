import { realpathSync } from 'node:fs'
import { join } from 'node:path'
import { resolveCommand } from '../../../sdk/manifest.js'
import { dieWithParent, hasDeathSignal, SURVIVES_KILL } from './reaper.js'
import { ALWAYS_OPEN, pluginEnvironment, WATCHED_MEMORY, type Launch, type Tier } from './tier.js'

/** No confinement at all, for programs that an administrator allowed by name where nothing stronger can hold them. */
export const unconfined: Tier = {
  name: 'none',
  probe: () => Promise.resolve(undefined),
  accepts: () => true,
  prepare: (request): Launch => {
    const directory = realpathSync(request.directory)
    const words =
      request.entry.kind === 'javascript'
        ? [process.execPath, `--max-old-space-size=${request.maxHeapMb}`, join(directory, request.entry.file)]
        : resolveCommand(directory, request.entry)
    const [command = '', ...args] = dieWithParent(words)
    return {
      command,
      args,
      env: { ...pluginEnvironment(), PATH: process.env.PATH ?? '/usr/local/bin:/usr/bin:/bin' },
      cwd: realpathSync(request.dataDir),
      dataDirInPlugin: realpathSync(request.dataDir),
      exchangeDirInPlugin: realpathSync(request.exchangeDir),
      enforced: ["the gateway's environment"],
      open: [
        'files of this user',
        'child processes',
        'network',
        'signals to other processes of this user',
        WATCHED_MEMORY,
        ...ALWAYS_OPEN,
        'what it has started may run on when the gateway itself is killed',
        ...(hasDeathSignal ? [] : [SURVIVES_KILL]),
      ],
    }
  },
}
