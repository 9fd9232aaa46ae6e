import { execFile } from 'node:child_process'

const PROBE_LIMIT_MS = 5_000

/** Runs a trivial confined program that prints `confined`. `undefined`: it works; else why not. */
export const runProbe = (command: string, args: readonly string[]): Promise<string | undefined> =>
  new Promise(resolve => {
    execFile(command, args, { env: {}, timeout: PROBE_LIMIT_MS, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      if (stdout.includes('confined')) resolve(undefined)
      else if ((error as NodeJS.ErrnoException | null)?.code === 'ENOENT') resolve(`${command} is not installed`)
      else resolve((stderr.trim() || error?.message || 'it does not confine').split('\n')[0]?.slice(0, 300))
    })
  })
