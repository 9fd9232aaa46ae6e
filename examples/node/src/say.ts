import { createRequire } from 'node:module'

/** Of this node's package. */
export const { version } = createRequire(import.meta.url)('../package.json') as { version: string }

/** A line for whoever called. */
export const say = (line: string): void => void process.stdout.write(`${line}\n`)
