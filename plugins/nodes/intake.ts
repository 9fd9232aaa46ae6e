import { setMaxListeners } from 'node:events'
import pRetry from 'p-retry'
import { conflict, GatewayError, notFound, validationFailed } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { DuplicateKey, type Collection } from '../../core/store/collection.js'
import type { Audit } from '../audit/contract.js'
import type { CommandStatus } from './contract.js'
import type { Dispatcher } from './dispatcher.js'
import { isOpen, type KnownCommand, type Ledger } from './ledger.js'
import { MAX_PARTS, type CommandResult, type SentError } from './protocol.js'
import type { Reach } from './reach.js'
import { cutFields, joinParts, MAX_RESULT_BYTES, toCommandError } from './results.js'
import type { CommandRow, PartRow } from './rows.js'
import type { SessionIdentity } from './session.js'

const PART_LIFETIME_MS = 86_400_000
/** How a result is tried again that the store did not take: for 6 to 13 s. */
const TRIES = { retries: 6, minTimeout: 100, randomize: true, unref: true }
/** Results that wait for another try at once, of all nodes: they stay in memory meanwhile. */
const MAX_TRIED_AGAIN = 1_000

/** What the node is told of its message. */
export interface Taken {
  commandId: string
  status: CommandStatus
}

interface Parts {
  ledger: Ledger
  parts: Collection<PartRow>
  dispatcher: Dispatcher
  reach: Reach
  audit: Audit
  /** Lets those who wait for a command know that it is over. */
  over: (command: KnownCommand) => void
  log: Log
}

/** Takes what nodes say about their commands: each command ends with one result, and everything else is refused and kept in the audit. */
export class Intake {
  readonly #parts: Parts
  readonly #stopping = new AbortController()
  #triedAgain = 0

  constructor(parts: Parts) {
    this.#parts = parts
    setMaxListeners(0, this.#stopping.signal)
  }

  /**
   * A result or a part of one. The same result again, after it was recorded, changes nothing. Rejects with `not_found`
   * for another node's command and with `conflict` when the command ended otherwise or was never dispatched. What the
   * store does not take is tried again for a while: most nodes send a result once, and do not wait for an answer.
   */
  async result(node: SessionIdentity, sent: CommandResult): Promise<Taken> {
    try {
      return await this.#result(node, sent)
    } catch (error) {
      if (!isOfTheStore(error) || this.#triedAgain >= MAX_TRIED_AGAIN) throw error
      const { commandId } = sent
      this.#parts.log.warn({ err: error, commandId, nodeId: node.id }, 'a result of a node could not be stored: it is tried again')
      return this.#again(() => this.#result(node, sent))
    }
  }

  /** Lets go of what is tried again: the nodes have it still. */
  stop(): void {
    this.#stopping.abort()
  }

  async #again(store: () => Promise<Taken>): Promise<Taken> {
    this.#triedAgain += 1
    try {
      return await pRetry(store, { ...TRIES, signal: this.#stopping.signal, shouldRetry: ({ error }) => isOfTheStore(error) })
    } finally {
      this.#triedAgain -= 1
    }
  }

  async #result(node: SessionIdentity, sent: CommandResult): Promise<Taken> {
    const { commandId, ok, result, partIndex, isLast, error, durationMs } = sent
    if (!ok) return this.#failed(node, commandId, error, durationMs)
    const { result: cut, truncated } = cutFields(result ?? {})
    const isPart = typeof partIndex === 'number' && !(partIndex === 0 && isLast === true)
    if (!isPart && isLast === false) throw validationFailed([{ path: 'partIndex', message: 'a part that is not the last needs its index' }])
    const text = JSON.stringify(cut)
    if (isPart) return this.#part(node, sent, { partIndex, isLast: isLast === true, text, truncated })
    return this.#end(node, commandId, { result: text, truncated, durationMs })
  }

  /** Ends a command without a payload; what has come in parts is its result. */
  async complete(
    node: SessionIdentity,
    commandId: string,
    { ok, error, durationMs }: Pick<CommandResult, 'ok' | 'error' | 'durationMs'>,
  ): Promise<Taken> {
    if (!ok) return this.#failed(node, commandId, error, durationMs)
    const parts = await this.#partsOf(commandId)
    const ended = await this.#end(node, commandId, { ...join(parts), durationMs })
    if (parts.length > 0) await this.#forgetParts(commandId)
    return ended
  }

  async progress(node: SessionIdentity, commandId: string, progress: NonNullable<CommandRow['progress']>): Promise<Taken> {
    const row = await this.#parts.ledger.progress(commandId, node.id, progress)
    return row ? taken(row) : this.#refuse(node, commandId, 'progress')
  }

  async #failed(
    node: SessionIdentity,
    commandId: string,
    sent: SentError | null | undefined,
    durationMs: number | undefined,
  ): Promise<Taken> {
    const { ledger, dispatcher } = this.#parts
    const error = toCommandError(sent)
    if (error.code === 'busy' && error.retryAfterMs !== undefined) {
      const row = await ledger.find(commandId)
      if (isRunningOn(row, node) && dispatcher.retry(row, error.retryAfterMs)) {
        this.#parts.reach.postponed(commandId, node.id, error.retryAfterMs)
        return taken(row)
      }
    }
    const status = error.code === 'timeout' ? 'timed_out' : error.code === 'cancelled' ? 'cancelled' : 'failed'
    const row = await ledger.endByNode(commandId, node.id, { status, error, ...optional(durationMs) })
    return row ? taken(row) : this.#refuse(node, commandId, 'result')
  }

  async #end(
    node: SessionIdentity,
    commandId: string,
    { result, truncated, durationMs }: { result: string; truncated: string[]; durationMs: number | undefined },
  ): Promise<Taken> {
    const isTooLarge = Buffer.byteLength(result) > MAX_RESULT_BYTES
    const ending = isTooLarge ? tooLarge() : ({ status: 'succeeded', result, truncated } as const)
    const row = await this.#parts.ledger.endByNode(commandId, node.id, { ...ending, ...optional(durationMs) })
    return row ? taken(row) : this.#refuse(node, commandId, 'result')
  }

  async #part(
    node: SessionIdentity,
    { commandId, durationMs }: CommandResult,
    part: { partIndex: number; isLast: boolean; text: string; truncated: string[] },
  ): Promise<Taken> {
    const row = await this.#parts.ledger.find(commandId)
    if (!isRunningOn(row, node)) return this.#refuse(node, commandId, 'part')
    await this.#keep(commandId, part, durationMs)
    const parts = await this.#partsOf(commandId)
    if (parts.reduce((sum, { bytes }) => sum + bytes, 0) > MAX_RESULT_BYTES) {
      const ended = await this.#parts.ledger.endByNode(commandId, node.id, tooLarge())
      if (!ended) return this.#refuse(node, commandId, 'part')
      await this.#forgetParts(commandId)
      return taken(ended)
    }
    const last = parts.find(({ isLast }) => isLast)
    // Indexes are unique, so as many as the last one counts are all of them.
    if (!last || parts.filter(({ partIndex }) => partIndex <= last.partIndex).length <= last.partIndex) return taken(row)
    const whole = parts.filter(({ partIndex }) => partIndex <= last.partIndex)
    const ended = await this.#end(node, commandId, { ...join(whole), durationMs: last.durationMs ?? undefined })
    await this.#forgetParts(commandId)
    return ended
  }

  /** A part that came before is kept as it came first. */
  async #keep(
    commandId: string,
    { partIndex, isLast, text, truncated }: { partIndex: number; isLast: boolean; text: string; truncated: string[] },
    durationMs: number | undefined,
  ): Promise<void> {
    try {
      await this.#parts.parts.insertOne({
        id: `${commandId}:${partIndex}`,
        commandId,
        partIndex,
        isLast,
        result: text,
        durationMs: durationMs ?? null,
        truncated,
        bytes: Buffer.byteLength(text),
        expiresAt: new Date(Date.now() + PART_LIFETIME_MS).toISOString(),
      })
    } catch (error) {
      if (!(error instanceof DuplicateKey)) throw error
    }
  }

  #partsOf(commandId: string): Promise<PartRow[]> {
    return this.#parts.parts.find({ commandId }, { sort: { partIndex: 1 }, limit: MAX_PARTS })
  }

  /** They stand in the result now. Parts of a command that ended otherwise are few: they are forgotten when they expire. */
  async #forgetParts(commandId: string): Promise<void> {
    await this.#parts.parts.deleteMany({ commandId })
  }

  async #refuse(node: SessionIdentity, commandId: string, what: string): Promise<Taken> {
    const row = await this.#parts.ledger.find(commandId)
    const isForeign = row?.nodeId !== node.id
    const why = isForeign ? 'foreign' : isOpen(row) ? 'not dispatched' : row.endedBy === 'node' ? 'again' : 'late'
    await this.#parts.audit.record(null, {
      action: 'nodes.result',
      target: node.id,
      tenant: node.tenant,
      outcome: 'refused',
      details: { commandId: commandId.slice(0, 100), what, why, ...(isForeign ? {} : { status: row.status }) },
    })
    if (isForeign) throw notFound('Command')
    if (why === 'again') {
      // It ended on disk, and the answer of the store was lost.
      if (this.#parts.dispatcher.holds(commandId)) this.#parts.over(row)
      return taken(row)
    }
    throw conflict(why === 'late' ? `The command is ${row.status} already: its result came too late` : 'The command was not dispatched', {
      status: row.status,
    })
  }
}

const isRunningOn = (row: KnownCommand | null, node: SessionIdentity): row is KnownCommand =>
  row?.nodeId === node.id && (row.status === 'dispatched' || row.status === 'running')

/** Not the node's fault: it may work a moment later. */
export const isOfTheStore = (error: unknown): boolean => !(error instanceof GatewayError) || error.status >= 500

const taken = ({ id, status }: CommandRow): Taken => ({ commandId: id, status })

const optional = (durationMs: number | undefined): { durationMs?: number } => (durationMs === undefined ? {} : { durationMs })

const join = (parts: readonly PartRow[]): { result: string; truncated: string[] } => ({
  result: JSON.stringify(joinParts(parts.map(({ result }) => JSON.parse(result) as Record<string, unknown>))),
  truncated: [...new Set(parts.flatMap(({ truncated }) => truncated))],
})

const tooLarge = () => ({
  status: 'failed' as const,
  error: { code: 'internal_error', message: `The result is larger than ${MAX_RESULT_BYTES} bytes: write it to a file on the node instead` },
})
