import { setTimeout as sleep } from 'node:timers/promises'
import { GatewayError } from '../../core/errors.js'
import type { Owner } from '../../core/store/collection.js'
import type { CommandOutcome, NewCommand, Nodes } from '../nodes/contract.js'
import { TaskInterrupted, type ToolContext } from '../tools/contract.js'

/** How often a command that has not ended is looked at again: what ends it on another gateway is seen then at the latest. */
const LOOK_MS = 5_000
/** Between looks that came back at once. */
const PAUSE_MS = 250
/** How long a command may wait for a node that is there. */
const QUEUE_LIMIT_MS = 60_000

interface Performance {
  nodes: Nodes
  owner: Owner
  nodeId: string
  command: NewCommand
  /** How long the owner may take to decide about it. */
  approvalMs: number
  signal: AbortSignal
  resting: ToolContext['resting']
}

/**
 * Sends a command of an agent and waits until it has ended. It does not wait for a node that is offline, and not for ever
 * for an approval: then it is withdrawn, and its outcome says so. When the agent's task ends, the command is cancelled,
 * unless the task goes on later and finds it again. Rejects as `Nodes.enqueue` does, and with the reason of `signal`.
 */
export const perform = async ({ nodes, owner, nodeId, command, approvalMs, signal, resting }: Performance): Promise<CommandOutcome> => {
  let outcome = await nodes.enqueue(owner, nodeId, command)
  const { commandId } = outcome
  const started = performance.now()
  let waits: Waits = { status: outcome.status, sinceMs: started, missed: 1 }
  try {
    for (;;) {
      if (isOver(outcome)) return outcome
      const isOnline = isWaiting(outcome) ? await isThere(nodes, owner, nodeId) : true
      waits = next(waits, outcome, isOnline)
      const reason = whyGiveUp(waits, nodeId, approvalMs)
      if (reason !== undefined) return await nodes.cancel(owner, commandId, reason)
      const looked = performance.now()
      const look = (): Promise<CommandOutcome> => nodes.wait(owner, commandId, lookMs(waits, approvalMs), signal)
      outcome = await (outcome.status === 'awaiting_approval' ? resting(look) : look())
      signal.throwIfAborted()
      if (!isOver(outcome) && performance.now() - looked < PAUSE_MS) await sleep(PAUSE_MS, undefined, { signal })
    }
  } catch (error) {
    if (signal.aborted && !(signal.reason instanceof TaskInterrupted)) await nodes.cancel(owner, commandId, 'The task of the agent ended')
    throw error
  }
}

/** How long it has been waiting for what, and how often in a row its node was not there. */
interface Waits {
  status: CommandOutcome['status']
  sinceMs: number
  missed: number
}

const next = ({ status, sinceMs, missed }: Waits, outcome: CommandOutcome, isOnline: boolean): Waits => ({
  status: outcome.status,
  sinceMs: status === outcome.status ? sinceMs : performance.now(),
  missed: isOnline ? 0 : missed + 1,
})

/** A node may be away for a moment, when it changes its connection; one that was away from the start is away. */
const MAX_MISSED = 2

const whyGiveUp = ({ status, sinceMs, missed }: Waits, nodeId: string, approvalMs: number): string | undefined => {
  const waitedMs = performance.now() - sinceMs
  if (missed >= MAX_MISSED && (status === 'queued' || waitedMs < PAUSE_MS))
    return `The machine ${nodeId} is offline: the command was not sent, and is not sent later`
  if (status === 'queued' && waitedMs > QUEUE_LIMIT_MS) return `The machine ${nodeId} has too much to do: the command was withdrawn`
  if (status === 'awaiting_approval' && waitedMs > approvalMs)
    return `Nobody approved the command within ${Math.round(approvalMs / 1000)} s: it was withdrawn`
  return undefined
}

/** Until the next look, which is not later than the end of the time for an approval. */
const lookMs = ({ status, sinceMs }: Waits, approvalMs: number): number =>
  status === 'awaiting_approval' ? Math.max(1, Math.min(LOOK_MS, approvalMs - (performance.now() - sinceMs))) : LOOK_MS

const isWaiting = ({ status }: CommandOutcome): boolean => status === 'queued' || status === 'awaiting_approval'

const isOver = ({ ok }: CommandOutcome): boolean => ok !== undefined

const isThere = async (nodes: Nodes, owner: Owner, nodeId: string): Promise<boolean> =>
  (await nodes.list(owner)).some(({ id, status }) => id === nodeId && status === 'online')

/** What went wrong before there was a command, as the model is told; `undefined` for what is the gateway's own failure. */
export const refusalOf = (error: unknown): { code: string; message: string } | undefined =>
  error instanceof GatewayError ? { code: error.code, message: error.message } : undefined
