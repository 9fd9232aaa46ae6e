import type { LogParams } from './protocol.js'

/** Writes to the gateway's log, in the plugin's name. Never log a secret: the gateway cannot know what is one. */
export interface PluginLog {
  debug(message: string, fields?: Record<string, unknown>): void
  info(message: string, fields?: Record<string, unknown>): void
  warn(message: string, fields?: Record<string, unknown>): void
  error(message: string, fields?: Record<string, unknown>): void
}

const MAX_MESSAGE = 16 * 1024

/** A log over `send`, which says whether the line got through; one that did not goes to stderr, which the gateway logs too. */
export function createLog(send: (line: LogParams) => boolean): PluginLog {
  const write =
    (level: LogParams['level']) =>
    (message: string, fields?: Record<string, unknown>): void => {
      const text = message.slice(0, MAX_MESSAGE)
      try {
        if (send(fields === undefined ? { level, message: text } : { level, message: text, fields })) return
        process.stderr.write(`${level}: ${text}\n`)
      } catch (error) {
        // Fields that are too large or have no JSON must not cost the message.
        process.stderr.write(`${level}: ${text} (its fields were left out: ${String(error)})\n`)
      }
    }
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') }
}
