import { randomUUID } from 'node:crypto'
import { rateLimited, serviceUnavailable } from '../../core/errors.js'
import type { CommandError, CommandOutcome } from './contract.js'
import { ANSWER_GRACE_MS } from './dispatcher.js'
import type { CommandResult, ExecuteCommand } from './protocol.js'
import { cutFields, toCommandError } from './results.js'
import type { NodeSession } from './session.js'

/**
 * Commands that nobody needs to find again: sent over a connection that is there, answered or lost with it, and never on
 * disk. The node cannot tell them from others.
 */
export class DirectCalls {
  /** Resolves with the outcome, whatever it is. Throws `service_unavailable` without a connection, `rate_limited` without room. */
  call(
    session: NodeSession | undefined,
    command: Pick<ExecuteCommand, 'command' | 'params' | 'timeoutMs' | 'originatedBy'>,
  ): Promise<CommandOutcome> {
    if (!session || session.isEnded) throw serviceUnavailable('The node is not connected')
    if (!session.hasRoom) throw rateLimited(1, 'The node has too much to do')
    const commandId = randomUUID()
    return new Promise(resolve => {
      const late = setTimeout(() => {
        settle(failed(commandId, { code: 'timeout', message: 'The node did not finish the command in time' }))
      }, command.timeoutMs + ANSWER_GRACE_MS)
      const settle = (outcome: CommandOutcome): void => {
        clearTimeout(late)
        session.release(commandId)
        resolve(outcome)
      }
      session.inFlight.add(commandId, settle)
      session.send('ExecuteCommand', { commandId, ...command, protocolVersion: session.version } satisfies ExecuteCommand)
    })
  }

  /** Whether the result is that of a call over this connection, which it ends. */
  take(session: NodeSession, { commandId, ok, result, error, durationMs, partIndex, isLast }: CommandResult): boolean {
    const settle = session.inFlight.settleOf(commandId)
    if (!settle) return false
    const isPart = typeof partIndex === 'number' && !(partIndex === 0 && isLast === true)
    if (!ok) settle(failed(commandId, toCommandError(error)))
    else if (isPart) settle(failed(commandId, { code: 'internal_error', message: 'The result is too large for a direct call' }))
    else {
      const { result: cut, truncated } = cutFields(result ?? {})
      settle({
        commandId,
        status: 'succeeded',
        ok: true,
        result: cut,
        ...(durationMs === undefined ? {} : { durationMs }),
        ...(truncated.length === 0 ? {} : { truncated }),
      })
    }
    return true
  }

  /** The connection has ended, and what was asked over it with it. */
  closed(session: NodeSession): void {
    for (const commandId of [...session.inFlight.ids])
      session.inFlight.settleOf(commandId)?.(failed(commandId, { code: 'cancelled', message: 'The connection of the node was lost' }))
  }
}

const failed = (commandId: string, error: CommandError): CommandOutcome => ({
  commandId,
  status: error.code === 'timeout' ? 'timed_out' : error.code === 'cancelled' ? 'cancelled' : 'failed',
  ok: false,
  error,
})
