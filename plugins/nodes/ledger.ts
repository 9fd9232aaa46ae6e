import { notFound } from '../../core/errors.js'
import { hasPermission, type Caller } from '../../core/http/caller.js'
import { newId } from '../../core/id.js'
import type { Collection, Owned, Page, PageOptions, ScopedHandle } from '../../core/store/collection.js'
import type { CommandError, CommandOutcome, CommandStatus } from './contract.js'
import type { CommandRow, LargeRow } from './rows.js'

export type KnownCommand = Owned<CommandRow, 'tenant'>

const OPEN: CommandStatus[] = ['queued', 'awaiting_approval', 'dispatched', 'running']
const IN_FLIGHT: CommandStatus[] = ['dispatched', 'running']
const DAY_MS = 86_400_000
/** Larger parameters and results are kept apart, so that lists of commands stay small. */
const INLINE_LENGTH = 64 * 1024
/** Open commands read in one turn. */
const BATCH = 32
const DUE_BATCH = 500

export const isOpen = ({ status }: Pick<CommandRow, 'status'>): boolean => OPEN.includes(status)

/** How a command ends. */
export interface Ending {
  status: Extract<CommandStatus, 'succeeded' | 'failed' | 'timed_out' | 'cancelled'>
  endedBy: 'node' | 'gateway'
  /** JSON. */
  result?: string
  error?: CommandError
  durationMs?: number
  truncated?: string[]
}

interface Parts {
  commands: ScopedHandle<CommandRow, 'tenant'>
  large: Collection<LargeRow>
  retentionDays: () => number
  /** By the clock of all gateways: another one may compare what this one wrote. */
  now: () => number
  /** Called with each command that ended, once, by whatever ended it. */
  onEnded: (command: KnownCommand) => void
}

/** Commands on disk. Every change of state is one conditional update, so that each command ends once. */
export class Ledger {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async insert(owner: { tenant: string | null }, row: CommandRow): Promise<void> {
    const kept = { ...row, ...(await this.#place(row.params ?? '{}', row.dueAt)) }
    await this.#parts.commands.for(owner).insertOne(kept)
  }

  /** The parameters, as JSON. */
  async params({ params, paramsId }: CommandRow): Promise<string> {
    if (params !== null) return params
    return (await this.#large(paramsId)) ?? '{}'
  }

  find(id: string): Promise<KnownCommand | null> {
    return this.#all.findOne({ id })
  }

  /** Rejects with `not_found` for what the caller does not see: another's, without `ManageNodes`. */
  async visible(caller: Caller, id: string): Promise<CommandRow> {
    const row = await this.#parts.commands.for(caller).findOne({ id })
    if (!row || (row.ownerId !== caller.userId && !hasPermission(caller, 'ManageNodes'))) throw notFound('Command')
    return row
  }

  /** Those that the node's present owner gave it. */
  page(caller: Caller, node: { id: string; ownerId: string }, options: PageOptions): Promise<Page<CommandRow>> {
    return this.#parts.commands.for(caller).page({ nodeId: node.id, ownerId: node.ownerId }, options)
  }

  /** The oldest commands that the node could be given now. */
  dispatchable(nodeId: string, except: string[], onlyQueued = false): Promise<KnownCommand[]> {
    const status = { $in: onlyQueued ? ['queued'] : ['queued', ...IN_FLIGHT] }
    return this.#all.find({ nodeId, dueAt: { $gt: this.#at() }, status, id: { $nin: except } }, { sort: { createdAt: 1 }, limit: BATCH })
  }

  /** How many commands wait for the node. */
  waiting(nodeId: string): Promise<number> {
    return this.#all.count({ nodeId, dueAt: { $gt: '' }, status: { $in: ['queued', 'awaiting_approval'] } })
  }

  openOf(nodeId: string): Promise<KnownCommand[]> {
    return this.#all.find({ nodeId, dueAt: { $gt: '' } }, { limit: BATCH })
  }

  /** Open commands that a node may be given or has been given, by their last change since then. */
  openSince(since: string, limit: number): Promise<KnownCommand[]> {
    const filter = { dueAt: { $gt: this.#at() }, status: { $in: ['queued', ...IN_FLIGHT] }, updatedAt: { $gte: since } }
    return this.#all.find(filter, { sort: { updatedAt: 1 }, limit })
  }

  /** Those of these commands that are over. */
  ended(ids: string[]): Promise<KnownCommand[]> {
    return this.#all.find({ id: { $in: ids }, status: { $nin: OPEN } }, { limit: ids.length })
  }

  due(): Promise<KnownCommand[]> {
    return this.#all.find({ dueAt: { $lte: this.#at() } }, { sort: { dueAt: 1 }, limit: DUE_BATCH })
  }

  awaitingApproval(): Promise<KnownCommand[]> {
    return this.#all.find({ dueAt: { $gt: '' }, status: 'awaiting_approval' }, { sort: { dueAt: 1 }, limit: DUE_BATCH })
  }

  /** The first dispatch: the timeout runs from here. `null`: it is not queued any more. */
  dispatch({ id, timeoutMs }: CommandRow): Promise<KnownCommand | null> {
    const dispatchedAt = this.#at()
    return this.#all.findOneAndUpdate(
      { id, status: 'queued' },
      { $set: { status: 'dispatched', dispatchedAt, updatedAt: dispatchedAt, dueAt: this.#at(timeoutMs) } },
    )
  }

  /** It is approved: it may be dispatched. */
  async release(id: string, params: string, dueAt: string): Promise<KnownCommand | null> {
    const placed = await this.#place(params, dueAt)
    return this.#all.findOneAndUpdate(
      { id, status: 'awaiting_approval' },
      { $set: { status: 'queued', ...placed, dueAt, updatedAt: this.#at() } },
    )
  }

  progress(id: string, nodeId: string, progress: CommandRow['progress']): Promise<KnownCommand | null> {
    return this.#all.findOneAndUpdate(
      { id, nodeId, status: { $in: IN_FLIGHT } },
      { $set: { status: 'running', progress, updatedAt: this.#at() } },
    )
  }

  /** The result of the node that it was dispatched to. `null`: it is over, or was never sent there. */
  endByNode(id: string, nodeId: string, ending: Omit<Ending, 'endedBy'>): Promise<KnownCommand | null> {
    return this.#end({ id, nodeId, status: { $in: IN_FLIGHT } }, { ...ending, endedBy: 'node' })
  }

  /** `null`: it is over already. */
  endByGateway(id: string, ending: Omit<Ending, 'endedBy'>, from: CommandStatus[] = OPEN): Promise<KnownCommand | null> {
    return this.#end({ id, status: { $in: from } }, { ...ending, endedBy: 'gateway' })
  }

  /** The command as whoever waits for it sees it. */
  async outcome(row: CommandRow): Promise<CommandOutcome> {
    const result = row.result ?? (await this.#large(row.resultId))
    return {
      commandId: row.id,
      status: row.status,
      ...(row.ok === null ? {} : { ok: row.ok }),
      ...(result === null ? {} : { result: JSON.parse(result) as Record<string, unknown> }),
      ...(row.error === null ? {} : { error: row.error }),
      ...(row.durationMs === null ? {} : { durationMs: row.durationMs }),
      ...(row.truncated.length === 0 ? {} : { truncated: row.truncated }),
    }
  }

  async #end(filter: Record<string, unknown>, ending: Ending): Promise<KnownCommand | null> {
    const { status, endedBy, result = null, error = null, durationMs = null, truncated = [] } = ending
    const finishedAt = this.#at()
    const expiresAt = kept(this.#parts.retentionDays() * DAY_MS)
    const resultId = result !== null && result.length > INLINE_LENGTH ? newId('res') : null
    // Before its command: a command that has ended has its result.
    if (resultId !== null) await this.#parts.large.insertOne({ id: resultId, json: result ?? '', expiresAt })
    const row = await this.#all.findOneAndUpdate(filter, {
      $set: {
        status,
        endedBy,
        ok: status === 'succeeded',
        result: resultId === null ? result : null,
        resultId,
        error,
        durationMs,
        truncated,
        finishedAt,
        updatedAt: finishedAt,
        expiresAt,
      },
      $unset: { dueAt: '' },
    })
    if (row) this.#parts.onEnded(row)
    else if (resultId !== null) await this.#parts.large.deleteOne({ id: resultId })
    return row
  }

  /** Where parameters stand: in the command, or apart, on disk before it. They are kept as long as it can be open, and then some. */
  async #place(params: string, dueAt = this.#at()): Promise<Pick<CommandRow, 'params' | 'paramsId'>> {
    if (params.length <= INLINE_LENGTH) return { params, paramsId: null }
    const paramsId = newId('par')
    const expiresAt = kept(Date.parse(dueAt) - this.#parts.now() + (1 + this.#parts.retentionDays()) * DAY_MS)
    await this.#parts.large.insertOne({ id: paramsId, json: params, expiresAt })
    return { params: null, paramsId }
  }

  async #large(id: string | null): Promise<string | null> {
    return id === null ? null : ((await this.#parts.large.findOne({ id }))?.json ?? null)
  }

  #at(offsetMs = 0): string {
    return new Date(this.#parts.now() + offsetMs).toISOString()
  }

  get #all(): Collection<KnownCommand> {
    return this.#parts.commands.everyone
  }
}

/** The store removes what has expired by the clock of the machine. */
const kept = (forMs: number): string => new Date(Date.now() + forMs).toISOString()
