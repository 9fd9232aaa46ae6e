import { redactHead } from '../redaction.js'

export const LOG_LEVELS = ['debug', 'info', 'warn', 'error'] as const
export type LogLevel = (typeof LOG_LEVELS)[number]

/** What is kept of a plugin's log: the newest lines, and of long ones fewer. */
const MAX_LINES = 1_000
const MAX_CHARACTERS = 512 * 1024
const MAX_LINE_LENGTH = 2_000

/** Where a line comes from: what the process wrote, what it said by the protocol, what the gateway says about it. */
export type LogSource = 'output' | 'plugin' | 'gateway'

export interface LogLine {
  /** Grows by one with each line, and is never that of another line of this plugin, also over restarts of the gateway. */
  seq: number
  at: string
  level: LogLevel
  source: LogSource
  text: string
}

/** A `log` notification of a plugin. What it says is data: its level is one of ours, its text is bounded. */
export const readLogParams = (params: unknown): { level: LogLevel; text: string } => {
  const { level, message, fields } = (typeof params === 'string' ? { message: params } : (params ?? {})) as Partial<Record<string, unknown>>
  const text = typeof message === 'string' ? message : JSON.stringify(message ?? null)
  const extra = fields === undefined ? '' : ` ${JSON.stringify(fields)}`
  return { level: LOG_LEVELS.find(name => name === level) ?? 'info', text: redactHead(`${text}${extra}`, MAX_LINE_LENGTH) }
}

/** The newest lines of one plugin over all of its processes, without the values of secrets. */
export class PluginLog {
  readonly #listeners = new Set<(line: LogLine) => void>()
  #lines: LogLine[] = []
  #characters = 0
  /**
   * Counts on from the time, in microseconds: above whatever a log of before has reached, which never had a line each
   * microsecond of its life.
   */
  #seq = Date.now() * 1000

  add(source: LogSource, level: LogLevel, text: string): void {
    const line = { seq: ++this.#seq, at: new Date().toISOString(), level, source, text: redactHead(text, MAX_LINE_LENGTH) }
    this.#lines.push(line)
    this.#characters += line.text.length
    // Dropped in batches: moving the whole list for each line would cost a flood dearly.
    if (this.#lines.length >= 2 * MAX_LINES || this.#characters > 2 * MAX_CHARACTERS) this.#trim()
    for (const listener of this.#listeners) listener(line)
  }

  /**
   * The newest lines after that `seq`, oldest first. After one of a gateway before this come all that are kept; also after
   * one that is still to come, which a clock that was ahead has given out.
   */
  lines({ after = 0, limit = MAX_LINES }: { after?: number; limit?: number } = {}): LogLine[] {
    this.#trim()
    const known = after > this.#seq ? 0 : after
    return this.#lines.filter(({ seq }) => seq > known).slice(-Math.min(limit, MAX_LINES))
  }

  /** Called with each new line until the undo is called. */
  onLine(listener: (line: LogLine) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  #trim(): void {
    let first = Math.max(0, this.#lines.length - MAX_LINES)
    let kept = this.#lines.slice(first).reduce((sum, { text }) => sum + text.length, 0)
    while (kept > MAX_CHARACTERS) kept -= this.#lines[first++]?.text.length ?? 0
    this.#lines = this.#lines.slice(first)
    this.#characters = kept
  }
}
