import { existsSync, realpathSync } from 'node:fs'
import { join } from 'node:path'
import { dieWithParent, hasDeathSignal, SURVIVES_KILL } from './reaper.js'
import { pluginEnvironment, type Launch, type Tier } from './tier.js'

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
        : resolveCommand(request.entry.command, directory, request.entry.file)
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
        'memory (watched)',
        ...(hasDeathSignal ? [] : [SURVIVES_KILL]),
      ],
    }
  },
}

/** A command's words, with those that name a file beside the entry made absolute: the plugin runs in its data directory. */
export const resolveCommand = (command: readonly string[], directory: string, entryFile: string): string[] => {
  const place = join(directory, entryFile, '..')
  return command.map((word, index) => (index > 0 && !word.startsWith('-') && existsSync(join(place, word)) ? join(place, word) : word))
}
