import { ConfigError } from './configLayers.js'
import { StartError } from './errors.js'
import { PluginOrderError } from './order.js'

const ANOTHER_DIRECTORY = 'choose another data directory with Service__DataDir=DIRECTORY'

/** What to do about a failed call of the system, by its code. */
const HINTS: Record<string, string> = {
  EACCES: `this user may not do that. Give it the right, or ${ANOTHER_DIRECTORY}`,
  EPERM: `this user may not do that. Give it the right, or ${ANOTHER_DIRECTORY}`,
  EROFS: `the file system is read-only. Make it writable, or ${ANOTHER_DIRECTORY}`,
  ENOSPC: 'the disk is full. Free space there, then start again',
  EDQUOT: "this user's share of the disk is full. Free space there, then start again",
  ENOTDIR: `a part of this path is a file. Move the file away, or ${ANOTHER_DIRECTORY}`,
  EEXIST: `a file is where a directory has to be. Move the file away, or ${ANOTHER_DIRECTORY}`,
  EMFILE: 'too many files are open. Raise the limit (ulimit -n), then start again',
  ENOTFOUND: 'Service:Host names a host that does not exist. Set it to an address of this machine, for example 127.0.0.1',
}

/** The same of `listen`, where the codes mean other things. */
const LISTEN_HINTS: Record<string, string> = {
  EADDRINUSE: 'another program uses this port. Stop it, or choose another with Service__Port=8081',
  EADDRNOTAVAIL: 'Service:Host has to be an address of this machine, for example 127.0.0.1, or 0.0.0.0 for all of them',
  EACCES: 'this user may not use this port. Choose one above 1023 with Service__Port=8080',
}

/** Why the gateway could not start: one line for what a person can mend, the whole error for what is our mistake. */
export const explainStart = (error: unknown): string => {
  if (!(error instanceof Error)) return String(error)
  if (isForPeople(error) || isForPeople(error.cause)) return error.message
  const hint = hintFor(error) ?? hintFor(error.cause)
  return hint === undefined ? (error.stack ?? error.message) : `${error.message}: ${hint}`
}

const isForPeople = (error: unknown): boolean =>
  error instanceof ConfigError || error instanceof StartError || error instanceof PluginOrderError

const hintFor = (error: unknown): string | undefined => {
  const { code = '', syscall } = (error ?? {}) as NodeJS.ErrnoException
  return (syscall === 'listen' ? LISTEN_HINTS : HINTS)[code]
}
