import { pino, type Logger } from 'pino'
import { redactJson } from './redaction.js'

export type Log = Logger

export interface LogOptions {
  level: string
  /** Default: stderr. */
  write?: (line: string) => void
}

/** The structured log: one JSON document a line, on stderr, its level by name, with every known secret value redacted. */
export const createLog = ({ level, write = line => process.stderr.write(line) }: LogOptions): Log =>
  pino(
    { level, base: null, timestamp: pino.stdTimeFunctions.isoTime, formatters: { level: label => ({ level: label }) } },
    {
      write: (line: string) => {
        write(`${redactJson(line.trimEnd())}\n`)
      },
    },
  )
