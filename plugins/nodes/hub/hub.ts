import { isDeepStrictEqual } from 'node:util'
import type { Cluster } from '../../../core/cluster/cluster.js'
import { GatewayError } from '../../../core/errors.js'
import type { Log } from '../../../core/log.js'
import type { Audit } from '../../audit/contract.js'
import type { DirectCalls } from '../calls.js'
import type { Authenticated, Directory } from '../directory.js'
import type { Dispatcher } from '../dispatcher.js'
import { Guesses } from '../guesses.js'
import { isOfTheStore, type Intake } from '../intake.js'
import type { Presence } from '../presence.js'
import { CommandResult, Heartbeat, negotiate, ScopeEcho } from '../protocol.js'
import { parseToken } from '../tokens.js'
import { MAX_IN_FLIGHT, NodeSession, type EndReason, type Transport } from '../session.js'
import type { Claim } from './claim.js'
import { Refusal } from './refusal.js'

/** A connection above its high water for this long is cut: the node does not read. */
const STUCK_LIMIT_MS = 20_000
const TICK_MS = 1000
/** Timers may fire a little early. */
const MARGIN_MS = 50
/** Messages of one connection that wait for the disk at once; every command in flight may end in the same moment. */
const MAX_PROCESSING = 2 * MAX_IN_FLIGHT

/** What nodes invoke; clients of SignalR may write the names in any case. */
const METHODS = new Map(
  (['Heartbeat', 'CommandResult', 'ScopeChanged'] as const).flatMap(name => [
    [name as string, name],
    [name.toLowerCase(), name],
  ]),
)

export interface Admitted extends Authenticated {
  version: string
}

interface Parts {
  directory: Directory
  presence: Presence
  dispatcher: Dispatcher
  intake: Intake
  calls: DirectCalls
  audit: Audit
  limiter: Cluster['limiter']
  /** By the clock of all gateways. */
  now: () => number
  versions: readonly string[]
  pingIntervalMs: number
  maxMessages: () => number
  log: Log
}

/** The one session model behind every protocol of the hub: who is let in, what is heard, and how a connection ends. */
export class Hub {
  readonly #parts: Parts
  /** When each connection is pinged next, in the order of time. */
  readonly #pings = new Map<NodeSession, number>()
  readonly #rotations = new Map<string, NodeJS.Timeout>()
  readonly #guesses: Guesses
  readonly #ticking: NodeJS.Timeout
  #isStopping = false
  /** One for all sessions: there may be ten thousand. */
  readonly #onEnd = (session: NodeSession): void => this.#parts.calls.closed(session)

  constructor(parts: Parts) {
    this.#parts = parts
    this.#guesses = new Guesses({
      limiter: parts.limiter,
      keyPrefix: 'node-token',
      message: 'Too many wrong node tokens come from this address: try again in a minute',
    })
    this.#ticking = setInterval(() => this.#tick(), Math.min(TICK_MS, parts.pingIntervalMs)).unref()
  }

  /** Rejects with a `Refusal`. */
  async admit({ token, protocolVersions, address }: Claim): Promise<Admitted> {
    const { directory, versions } = this.#parts
    if (this.#isStopping) throw new Refusal('service_unavailable', 'The gateway is stopping: connect again later')
    const version = negotiate(protocolVersions, versions)
    if (version === undefined)
      throw new Refusal('protocol_unsupported', `None of the offered protocol versions is spoken here: ${versions.join(', ')} are`)
    try {
      return { ...(await directory.authenticate(token).catch((error: unknown) => this.#refused(error, token, address))), version }
    } catch (error) {
      if (error instanceof GatewayError) throw new Refusal(error.code, error.message)
      this.#parts.log.error({ err: error }, 'the token of a node could not be checked')
      throw new Refusal('internal_error', 'The token could not be checked: connect again later')
    }
  }

  /** Wrong tokens are counted by where they come from. A right one from there is let in all the same. */
  async #refused(error: unknown, token: string | undefined, address: string): Promise<never> {
    if (error instanceof GatewayError && error.code === 'unauthenticated')
      await this.#guesses.count(address, parseToken(token)?.nodeId ?? '')
    throw error
  }

  /** The connection is the node's session from now on. It gets what waits for it. */
  open({ node, tokenHash, version }: Admitted, transport: Transport): NodeSession {
    const { presence, dispatcher } = this.#parts
    const session = new NodeSession(node, version, tokenHash, transport, this.#onEnd)
    if (this.#isStopping) {
      session.end('gateway_stopping', true)
      return session
    }
    presence.connected(session)
    this.#pings.set(session, performance.now() + this.#parts.pingIntervalMs)
    if (node.scopesChanged) session.send('RefreshScopes', node.scopes)
    dispatcher.drain(session)
    this.#confirm(session)
    return session
  }

  /** The connection has ended, whoever ended it. */
  closed(session: NodeSession): void {
    this.#pings.delete(session)
    this.#parts.calls.closed(session)
    this.#parts.presence.disconnected(session)
  }

  /**
   * Something that the node invoked. Throws or rejects with what is wrong with it, for protocols that can say so; a
   * promise is returned only where there is something to wait for.
   */
  receive(session: NodeSession, method: string, argument: unknown): void | Promise<void> {
    if (session.isEnded) return
    switch (METHODS.get(method) ?? METHODS.get(method.toLowerCase())) {
      case 'Heartbeat':
        this.#count(session)
        this.#heartbeat(session, argument)
        return
      case 'CommandResult':
        return this.#result(session, argument)
      case 'ScopeChanged':
        this.#count(session)
        return this.#process(session, this.#scopesChanged(session, argument))
      default:
        this.#count(session)
        throw new Refusal('invalid_request', `There is no method ${method.slice(0, 100)}`)
    }
  }

  /** The connection sends more bytes than it may. */
  flooded(session: NodeSession): void {
    if (!session.isEnded) this.#end(session, 'rate_limited')
  }

  scopesSet(nodeId: string, scopes: string[]): void {
    const session = this.#parts.presence.session(nodeId)
    if (!session) return
    session.scopes = scopes
    session.send('RefreshScopes', scopes)
    this.#parts.dispatcher.drain(session)
  }

  /** At once, and the node is told not to come back. */
  revoked(nodeId: string): void {
    const { presence } = this.#parts
    presence.session(nodeId)?.end('admin_revoked', false)
    presence.gone(nodeId)
  }

  /** Something about the node changed on disk, by whichever gateway: its approval, its scopes, its token. */
  async changed(nodeId: string): Promise<void> {
    const { directory, presence } = this.#parts
    const node = await directory.find(nodeId)
    if (node?.state !== 'approved') {
      this.revoked(nodeId)
      return
    }
    const session = presence.session(nodeId)
    if (!session) return
    if (!isDeepStrictEqual(session.scopes, node.scopes)) this.scopesSet(nodeId, node.scopes)
    if (session.tokenHash !== node.tokenHash) this.rotated(nodeId, node.oldTokenUntil ?? new Date(this.#parts.now()).toISOString())
  }

  /** A connection that an old token proved lasts no longer than that token. */
  rotated(nodeId: string, oldTokenUntil: string): void {
    clearTimeout(this.#rotations.get(nodeId))
    const check = setTimeout(
      () => {
        this.#rotations.delete(nodeId)
        const session = this.#parts.presence.session(nodeId)
        if (session) this.#confirm(session)
      },
      Date.parse(oldTokenUntil) - this.#parts.now() + MARGIN_MS,
    ).unref()
    this.#rotations.set(nodeId, check)
  }

  close(): void {
    this.#isStopping = true
    clearInterval(this.#ticking)
    for (const timer of this.#rotations.values()) clearTimeout(timer)
    this.#parts.presence.eachSession(session => session.end('gateway_stopping', true))
  }

  #heartbeat(session: NodeSession, argument: unknown): void {
    const heartbeat = Heartbeat.safeParse(argument)
    if (!heartbeat.success) throw new Refusal('invalid_params', 'Heartbeat takes an object: nodeId, status, uptime, ...')
    const { nodeId } = heartbeat.data
    if (nodeId !== undefined && nodeId !== session.node.id) throw new Refusal('invalid_params', 'The heartbeat names another node')
    if (this.#parts.presence.session(session.node.id) === session) this.#parts.presence.heartbeat(session.node.id, heartbeat.data)
  }

  #result(session: NodeSession, argument: unknown): void | Promise<void> {
    const sent = CommandResult.safeParse(argument)
    if (!sent.success) {
      this.#count(session)
      return this.#process(session, this.#malformed(session, argument))
    }
    if (this.#parts.calls.take(session, sent.data)) return
    if (!session.inFlight.has(sent.data.commandId)) this.#count(session)
    return this.#process(session, this.#taken(session, sent.data))
  }

  /** A result that could not be kept after all: the node is let go, and given its command again when it comes back. */
  async #taken(session: NodeSession, sent: CommandResult): Promise<void> {
    try {
      await this.#parts.intake.result(session.node, sent)
    } catch (error) {
      if (isOfTheStore(error) && !session.isEnded) this.#end(session, 'store_unavailable')
      throw error
    }
  }

  /** Bounds what waits for the disk on behalf of one connection. */
  async #process(session: NodeSession, work: Promise<unknown>): Promise<void> {
    session.processing += 1
    if (session.processing > MAX_PROCESSING) this.#end(session, 'rate_limited')
    try {
      await work
    } finally {
      session.processing -= 1
    }
  }

  async #scopesChanged(session: NodeSession, argument: unknown): Promise<void> {
    const scopes = ScopeEcho.safeParse(argument)
    if (!scopes.success) throw new Refusal('invalid_params', 'ScopeChanged takes a list of scopes')
    await this.#parts.directory.scopesAcknowledged(session.node.id, scopes.data)
  }

  async #malformed({ node }: NodeSession, argument: unknown): Promise<never> {
    const { commandId } = (typeof argument === 'object' && argument !== null ? argument : {}) as { commandId?: unknown }
    const details = { why: 'malformed', ...(typeof commandId === 'string' ? { commandId: commandId.slice(0, 100) } : {}) }
    await this.#parts.audit.record(null, { action: 'nodes.result', target: node.id, tenant: node.tenant, outcome: 'refused', details })
    throw new Refusal('invalid_params', 'CommandResult takes an object: commandId, ok, result or error, durationMs, ...')
  }

  #count(session: NodeSession): void {
    if (session.admitUnsolicited(this.#parts.maxMessages())) return
    this.#end(session, 'rate_limited')
    throw new Refusal('rate_limited', 'Too many messages that no command asked for')
  }

  #end(session: NodeSession, reason: EndReason): void {
    this.#parts.log.warn({ nodeId: session.node.id, reason }, `the connection of a node was ended: ${reason}`)
    session.end(reason, true)
    this.closed(session)
  }

  /** What was true when the connection was let in may have changed since: a node revoked, a token rotated. */
  #confirm(session: NodeSession): void {
    const { directory, log } = this.#parts
    const { id } = session.node
    directory
      .confirm(id, session.tokenHash)
      .then(node => {
        if (node === 'revoked') session.end('admin_revoked', false)
        else if (node === 'stale') session.end('token_rotated', true)
        else session.scopes = node.scopes
      })
      .catch((error: unknown) => {
        log.error({ err: error, nodeId: id }, 'the connection of a node could not be checked again')
      })
  }

  #tick(): void {
    const { presence, dispatcher, pingIntervalMs } = this.#parts
    presence.sweep()
    const now = performance.now()
    for (const [session, dueAt] of this.#pings) {
      if (dueAt > now) break
      this.#pings.delete(session)
      if (session.isEnded) continue
      this.#pings.set(session, now + pingIntervalMs)
      if (session.stuckMs(now) > STUCK_LIMIT_MS) this.#end(session, 'slow')
      else session.transport.ping()
    }
    presence.eachSession(session => {
      if (session.hasBacklog && session.hasRoom) dispatcher.drain(session)
    })
  }
}
