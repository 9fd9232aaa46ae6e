import { execFile } from 'node:child_process'

const PROBE_LIMIT_MS = 15_000

/** A probe that did not end in time says nothing about the sandbox: the machine may be busy. */
export const PROBE_TIMED_OUT = `the probe did not end within ${PROBE_LIMIT_MS / 1000} s`

/** Runs a trivial confined program that prints `confined`. `undefined`: it works; else why not. */
export const runProbe = (command: string, args: readonly string[]): Promise<string | undefined> =>
  new Promise(resolve => {
    execFile(command, args, { env: {}, timeout: PROBE_LIMIT_MS, killSignal: 'SIGKILL' }, (error, stdout, stderr) => {
      if (stdout.includes('confined')) resolve(undefined)
      else if ((error as NodeJS.ErrnoException | null)?.code === 'ENOENT') resolve(`${command} is not installed`)
      else if (error?.killed === true) resolve(PROBE_TIMED_OUT)
      else resolve((stderr.trim() || error?.message || 'it does not confine').split('\n')[0]?.slice(0, 300))
    })
  })
