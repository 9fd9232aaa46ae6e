import type { CommandErrorCode, CommandFailure } from './protocol.js'

/** A command's failure with a code of the protocol. Anything else that a command throws becomes `internal_error`. */
export class CommandError extends Error {
  readonly code: CommandErrorCode
  readonly details: Record<string, unknown> | undefined
  readonly retryAfterMs: number | undefined

  constructor(
    code: CommandErrorCode,
    message: string,
    { details, retryAfterMs, cause }: { details?: Record<string, unknown>; retryAfterMs?: number; cause?: unknown } = {},
  ) {
    super(message, cause === undefined ? undefined : { cause })
    this.name = 'CommandError'
    this.code = code
    this.details = details
    this.retryAfterMs = retryAfterMs
  }
}

/** The command cannot work on this machine. `tool` names the program that is missing, where one is. */
export const platformUnsupported = (message: string, tool?: string): CommandError =>
  new CommandError('platform_unsupported', message, tool === undefined ? {} : { details: { tool } })

/** The parameter at `path` is not what the command needs. */
export const invalidParams = (path: string, message: string): CommandError =>
  new CommandError('invalid_params', path === '' ? message : `${path}: ${message}`, { details: { path } })

/** Too much is going on; the gateway asks again after `retryAfterMs`. */
export const busy = (message: string, retryAfterMs: number): CommandError => new CommandError('busy', message, { retryAfterMs })

/** Any error as it travels. */
export const toFailure = (error: unknown): CommandFailure => {
  if (!(error instanceof CommandError)) return { code: 'internal_error', message: error instanceof Error ? error.message : String(error) }
  const { code, message, details, retryAfterMs } = error
  return { code, message, ...(details === undefined ? {} : { details }), ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }
}
