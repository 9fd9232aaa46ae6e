import { LRUCache } from 'lru-cache'
import type { Log } from '../../core/log.js'
import type { PolledCommand } from './between.js'
import type { KnownCommand, Ledger } from './ledger.js'
import type { Presence } from './presence.js'
import type { ExecuteCommand } from './protocol.js'
import { isInScope } from './scopes.js'
import { HIGH_WATER_BYTES, MAX_IN_FLIGHT, type NodeSession } from './session.js'

/** Commands that one poll is given. */
const MAX_POLLED = 50
/** Of parameters, together; one command may be larger by itself. */
const MAX_POLLED_BYTES = HIGH_WATER_BYTES
/** A busy node is not asked again sooner or later than this. */
const MIN_RETRY_MS = 100
const MAX_RETRY_MS = 60_000
/** Commands remembered as ended. */
const MAX_OVER = 4096

/** What a node's own answer that the time is over may take to arrive: it says more than the gateway could. */
export const ANSWER_GRACE_MS = 1_000

interface PollOptions {
  /** What was given and has not ended is given once more. */
  resume: boolean
  /** Nothing that was dispatched before: another gateway may have given it to the node. */
  onlyQueued?: boolean
}

/** With its parameters at hand. */
type LoadedCommand = KnownCommand & { json: string }

interface Parts {
  ledger: Ledger
  presence: Presence
  /** By the clock of all gateways. */
  now: () => number
  log: Log
}

/** Brings commands to nodes, over connections and polls, and ends them when their time is over. */
export class Dispatcher {
  readonly #parts: Parts
  /** One for each command that was dispatched here and has not ended. */
  readonly #timeouts = new Map<string, NodeJS.Timeout>()
  readonly #retries = new Map<string, NodeJS.Timeout>()
  /** The last that ended. */
  readonly #over = new LRUCache<string, true>({ max: MAX_OVER })

  constructor(parts: Parts) {
    this.#parts = parts
  }

  /** Brings a command that is on disk as dispatched to the node, now or as soon as the connection has room. */
  deliver(row: KnownCommand): void {
    const session = this.#parts.presence.session(row.nodeId)
    if (!session || session.hasRoom) this.#send({ ...row, json: row.params ?? '{}' })
    else {
      this.#watch(row)
      session.hasBacklog = true
    }
  }

  /** Gives a connected node what waits for it and what it may have lost, oldest first, as far as there is room. */
  drain(session: NodeSession): void {
    session.hasBacklog = true
    if (session.isDraining) return
    session.isDraining = true
    this.#drain(session)
      .catch((error: unknown) => {
        this.#parts.log.error({ err: error, nodeId: session.node.id }, 'commands could not be brought to a node: tried again soon')
        session.hasBacklog = true
      })
      .finally(() => (session.isDraining = false))
  }

  /** What a polling node is to do now. It is not given the same again unless it asks to (`resume`) or was silent for long. */
  async poll(nodeId: string, scopes: string[], { resume, onlyQueued = false }: PollOptions): Promise<PolledCommand[]> {
    const { presence } = this.#parts
    const offered = presence.polled(nodeId)
    if (!offered) return []
    if (resume) offered.clear()
    const now = Date.now()
    const polled: PolledCommand[] = []
    let bytes = 0
    const room = Math.min(MAX_POLLED, MAX_IN_FLIGHT - [...offered.values()].filter(until => until > now).length)
    while (polled.length < room) {
      const held = [...offered].filter(([, until]) => until > now).map(([id]) => id)
      const free = await this.#loaded(nodeId, held, onlyQueued && !resume)
      // Claimed before anything is awaited again, so that two polls at once do not get the same.
      const unclaimed = free.filter(({ id }) => (offered.get(id) ?? 0) <= now)
      const rows = fitting(unclaimed, room - polled.length, MAX_POLLED_BYTES - bytes)
      bytes += sizeOf(rows)
      if (rows.length === 0 || (polled.length > 0 && bytes > MAX_POLLED_BYTES)) break
      for (const { id } of rows) offered.set(id, Infinity)
      const claimed = await this.#claim(rows, scopes)
      for (const { id } of rows) if (!claimed.some(row => row.id === id)) offered.delete(id)
      for (const row of claimed) {
        this.#watch(row)
        polled.push(toPolled(row))
      }
    }
    return polled
  }

  /** A busy node is asked again later. False: that would be after the command's time. */
  retry({ id, nodeId, dueAt }: KnownCommand, retryAfterMs: number): boolean {
    const delay = Math.min(Math.max(retryAfterMs, MIN_RETRY_MS), MAX_RETRY_MS)
    if (dueAt === undefined || this.#parts.now() + delay >= Date.parse(dueAt)) return false
    const { presence } = this.#parts
    presence.get(nodeId)?.offered?.set(id, Date.now() + delay)
    // Another connection meanwhile has got it by itself.
    const session = presence.session(nodeId)
    clearTimeout(this.#retries.get(id))
    const again = setTimeout(() => {
      this.#retries.delete(id)
      if (!session || presence.session(nodeId) !== session) return
      session.inFlight.delete(id)
      this.#resend(id).catch((error: unknown) => {
        this.#parts.log.error({ err: error, commandId: id }, 'a command could not be sent again')
      })
    }, delay)
    this.#retries.set(id, again)
    return true
  }

  /** The command is over, whatever ended it. */
  ended({ id, nodeId }: Pick<KnownCommand, 'id' | 'nodeId'>): void {
    this.#over.set(id, true)
    for (const timers of [this.#timeouts, this.#retries]) {
      clearTimeout(timers.get(id))
      timers.delete(id)
    }
    const present = this.#parts.presence.get(nodeId)
    present?.offered?.delete(id)
    if (present?.session?.release(id) && present.session.hasBacklog) this.drain(present.session)
  }

  /** Whether it was dispatched here and has not ended, as far as is known. */
  holds(id: string): boolean {
    return this.#timeouts.has(id)
  }

  stop(): void {
    for (const timers of [this.#timeouts, this.#retries]) {
      for (const timer of timers.values()) clearTimeout(timer)
      timers.clear()
    }
  }

  async #drain(session: NodeSession): Promise<void> {
    const { presence } = this.#parts
    while (session.hasRoom && presence.session(session.node.id) === session) {
      session.hasBacklog = false
      const free = await this.#loaded(session.node.id, [...session.inFlight.ids])
      // Whoever adds one meanwhile sets it again.
      if (free.length === 0 && !this.#hasBacklog(session)) return
      const rows = fitting(free, MAX_IN_FLIGHT - session.inFlight.size, HIGH_WATER_BYTES)
      for (const row of await this.#claim(rows, session.scopes)) this.#send(row)
    }
    session.hasBacklog = true
  }

  #hasBacklog(session: NodeSession): boolean {
    return session.hasBacklog
  }

  /** The rows that may go out, as they are on disk once they are dispatched. */
  async #claim(rows: LoadedCommand[], scopes: readonly string[]): Promise<LoadedCommand[]> {
    const { ledger } = this.#parts
    const claimed = await Promise.all(
      rows.map(async row => {
        if (isInScope(row.command, scopes)) {
          const dispatched = row.status === 'queued' ? await ledger.dispatch(row) : row
          return dispatched && { ...dispatched, json: row.json }
        }
        const message = `The node is not allowed ${row.command} any more`
        await ledger.endByGateway(row.id, { status: 'failed', error: { code: 'not_authorized', message } })
        return null
      }),
    )
    // What ended since it was read is not sent again.
    return claimed.filter(row => row !== null).filter(({ id }) => !this.#over.has(id))
  }

  async #resend(id: string): Promise<void> {
    const row = await this.#parts.ledger.find(id)
    if (row && (row.status === 'dispatched' || row.status === 'running')) this.#send({ ...row, json: await this.#parts.ledger.params(row) })
  }

  async #loaded(nodeId: string, except: string[], onlyQueued = false): Promise<LoadedCommand[]> {
    const { ledger } = this.#parts
    const rows = await ledger.dispatchable(nodeId, except, onlyQueued)
    return Promise.all(rows.map(async row => ({ ...row, json: await ledger.params(row) })))
  }

  /** Over the node's present connection, once for each connection. */
  #send(row: LoadedCommand): void {
    this.#watch(row)
    const session = this.#parts.presence.session(row.nodeId)
    if (!session || session.inFlight.has(row.id)) return
    session.inFlight.add(row.id)
    session.send('ExecuteCommand', toWire(row, session.version))
  }

  #watch({ id, nodeId, dueAt }: KnownCommand): void {
    if (dueAt === undefined || this.#timeouts.has(id)) return
    const end = (): void => {
      this.#timeouts.delete(id)
      // Should the store not take it, the sweep over what is due ends it.
      this.#parts.ledger.endByGateway(id, timedOut('The node did not finish the command in time')).then(
        // It ended elsewhere, unheard.
        row => row ?? this.ended({ id, nodeId }),
        (error: unknown) => this.#parts.log.error({ err: error, commandId: id }, 'the timeout of a command could not be stored'),
      )
    }
    this.#timeouts.set(id, setTimeout(end, Math.max(0, Date.parse(dueAt) + ANSWER_GRACE_MS - this.#parts.now())))
  }
}

export const timedOut = (message: string) => ({ status: 'timed_out' as const, error: { code: 'timeout', message } })

/** The first commands, as many as there is room for, and at least one where there is room for any. */
const fitting = (rows: LoadedCommand[], count: number, bytes: number): LoadedCommand[] => {
  let sum = 0
  return rows.slice(0, Math.max(0, count)).filter((row, index) => (sum += row.json.length) <= bytes || index === 0)
}

const sizeOf = (rows: LoadedCommand[]): number => rows.reduce((sum, { json }) => sum + json.length, 0)

const paramsOf = ({ json }: LoadedCommand): Record<string, unknown> => JSON.parse(json) as Record<string, unknown>

const toPolled = (row: LoadedCommand): PolledCommand => ({
  commandId: row.id,
  command: row.command,
  params: paramsOf(row),
  timeoutMs: row.timeoutMs,
})

const toWire = (row: LoadedCommand, protocolVersion: string): ExecuteCommand => ({
  commandId: row.id,
  command: row.command,
  params: paramsOf(row),
  timeoutMs: row.timeoutMs,
  originatedBy: { userId: row.ownerId, agentId: row.agentId ?? '', sessionId: row.sessionId ?? '' },
  protocolVersion,
})
