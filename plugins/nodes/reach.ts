import { LRUCache } from 'lru-cache'
import { Unreachable, type Cluster, type NoticeRef, type Owners } from '../../core/cluster/cluster.js'
import type { Owner } from '../../core/store/collection.js'
import {
  callNode,
  commandOver,
  commandPostponed,
  nodeAwaited,
  nodeChanged,
  nodeHeard,
  pollNode,
  Sight,
  takeCommand,
  type PolledCommand,
} from './between.js'
import type { CommandOutcome, CommandStatus, NewCommand } from './contract.js'
import type { Presence } from './presence.js'
import type { Heartbeat } from './protocol.js'

/** How long it may take to find another gateway and have it put a command on disk or look one up; after it the store does it here. */
const HAND_OVER_MS = 3_000
/** Beside the time of the command itself. */
const CALL_MARGIN_MS = 2_000
/** A gateway that did not answer in time is not asked for commands again for this long: the store is quicker. */
const SILENT_MS = 10_000
/** Characters of parameters that are handed over; larger ones go by the store. */
const MAX_HANDED_OVER = 256 * 1024

interface Parts {
  cluster: Cluster
  presence: Presence
  /** Something waits for a node that is connected here. */
  drain: (nodeId: string) => void
}

/** Where nodes are, at this gateway or at another one, and the way to them. With one gateway all of it ends here. */
export class Reach {
  readonly #parts: Parts
  readonly #cluster: Cluster
  readonly #owners: Owners<Sight>
  readonly #silent = new LRUCache<string, true>({ max: 100, ttl: SILENT_MS })

  constructor(parts: Parts) {
    this.#parts = parts
    this.#cluster = parts.cluster
    this.#owners = parts.cluster.owners<Sight>({
      kind: 'nodes',
      info: Sight,
      describe: nodeId => parts.presence.sight(nodeId),
      onLost: (nodeId, wasTaken) => {
        // A connection that gives way to one that was not known of may not be the older one: it may return.
        parts.presence.lost(nodeId, !wasTaken)
      },
    })
  }

  /** The node was heard of here, over a new connection or not. A connection is the node's last; a poll does not end one. */
  heard(nodeId: string, isConnection: boolean): void {
    if (isConnection) this.#owners.claim(nodeId, true)
    else if (!this.#owners.touch(nodeId)) this.#owners.claim(nodeId, false)
  }

  gone(nodeId: string): void {
    this.#owners.release(nodeId)
  }

  /** How each of these nodes is seen, here or elsewhere, those that are online. */
  async sights(nodeIds: readonly string[]): Promise<Map<string, Sight>> {
    const seen = new Map<string, Sight>()
    const others: string[] = []
    for (const nodeId of nodeIds) {
      const sight = this.#parts.presence.sight(nodeId)
      if (sight) seen.set(nodeId, sight)
      else others.push(nodeId)
    }
    if (others.length === 0 || !this.#cluster.isShared) return seen
    // While the others cannot be asked, what they hold is not known.
    const entries = await this.#owners.entries(others).catch(() => new Map<string, { info: Sight }>())
    for (const [nodeId, { info }] of entries) seen.set(nodeId, info)
    return seen
  }

  /** Something on disk waits for the node, wherever it is. */
  wake(nodeId: string): void {
    if (this.#parts.presence.session(nodeId)) this.#parts.drain(nodeId)
    else this.#tellOwner(nodeId, nodeAwaited, { nodeId })
  }

  /** A sign of life over HTTP, which any gateway may get. */
  async heartbeat(nodeId: string, heartbeat: Heartbeat): Promise<void> {
    const gateway = await this.#elsewhere(nodeId)
    if (gateway === undefined) this.#parts.presence.heartbeat(nodeId, heartbeat)
    else this.#cluster.tell(nodeHeard, { nodeId, heartbeat }, gateway)
  }

  /**
   * A poll, at whichever gateway: answered by the one that knows what the node was given. Without `commands` this one
   * answers; `isSure` tells whether no other may have given something to the node that it still works on.
   */
  async poll(nodeId: string, scopes: string[], resume: boolean): Promise<{ commands: PolledCommand[] | undefined; isSure: boolean }> {
    let isSure = this.#cluster.state().isReachable
    const startedAt = performance.now()
    const commands = await this.#askOwner(nodeId, HAND_OVER_MS, async (gateway, timeoutMs) => {
      try {
        return (await this.#cluster.ask(gateway, pollNode, { nodeId, scopes, resume }, { timeoutMs })).commands
      } catch (error) {
        isSure = false
        throw error
      }
    })
    // That nobody has the node may mean that nobody could tell.
    return { commands, isSure: isSure && performance.now() - startedAt < HAND_OVER_MS / 2 && this.#cluster.state().isReachable }
  }

  /**
   * Hands a command to the gateway that the node is connected to, if that can be done within this time. `undefined`: to
   * none, and it may or may not be on disk.
   */
  async take(owner: Owner, nodeId: string, id: string, wanted: NewCommand, withinMs = Infinity): Promise<CommandStatus | undefined> {
    if (wanted.params !== undefined && JSON.stringify(wanted.params).length > MAX_HANDED_OVER) return undefined
    return this.#askOwner(nodeId, Math.min(HAND_OVER_MS, withinMs), async (gateway, leftMs) => {
      if (this.#silent.has(gateway)) return undefined
      const asked = { owner: ownerOf(owner), nodeId, id, wanted: plain(wanted) }
      return (await this.#cluster.ask(gateway, takeCommand, asked, { timeoutMs: leftMs })).status
    })
  }

  /** Calls a node that is connected elsewhere. `undefined`: it is not. */
  async call(owner: Owner, nodeId: string, wanted: NewCommand, timeoutMs: number): Promise<CommandOutcome | undefined> {
    return this.#askOwner(nodeId, timeoutMs + CALL_MARGIN_MS, async (gateway, leftMs) => {
      const asked = { owner: ownerOf(owner), nodeId, wanted: plain(wanted) }
      try {
        return (await this.#cluster.ask(gateway, callNode, asked, { timeoutMs: leftMs, patient: true })).outcome
      } catch (error) {
        if (!(error instanceof Unreachable) || !error.maybeDone) throw error
        const message = 'The connection to the gateway of the node was lost'
        return { commandId: '', status: 'cancelled', ok: false, error: { code: 'cancelled', message } }
      }
    })
  }

  /** A node's scopes, token or approval changed on disk: every gateway looks whether it is there. */
  changed(nodeId: string): void {
    this.#cluster.tell(nodeChanged, { nodeId })
  }

  /** A command has ended here. */
  ended({ id, nodeId }: { id: string; nodeId: string }): void {
    if (!this.#cluster.isShared) return
    this.#cluster.publish(commandOver, id, { id, nodeId })
    if (!this.#parts.presence.get(nodeId)) this.#tellOwner(nodeId, commandOver, { id, nodeId })
  }

  /** A busy node, elsewhere, is asked again later. */
  postponed(id: string, nodeId: string, retryAfterMs: number): void {
    if (!this.#parts.presence.get(nodeId)) this.#tellOwner(nodeId, commandPostponed, { id, retryAfterMs })
  }

  /** `ask` is told how much of the time is left, in milliseconds. */
  async #askOwner<R>(
    nodeId: string,
    withinMs: number,
    ask: (gateway: string, leftMs: number) => Promise<R | undefined>,
  ): Promise<R | undefined> {
    const until = performance.now() + withinMs
    // A node may just have moved: asked for once more, what was remembered is not.
    for (let again = 0; again < 2; again++) {
      const gateway = await this.#elsewhere(nodeId, until - performance.now())
      const leftMs = Math.ceil(until - performance.now())
      if (gateway === undefined || leftMs <= 0) return undefined
      try {
        const answer = await ask(gateway, leftMs)
        if (answer !== undefined) return answer
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error
        if (error.maybeDone) {
          this.#silent.set(gateway, true)
          return undefined
        }
      }
      this.#owners.forget(nodeId)
    }
    return undefined
  }

  #tellOwner<A>(nodeId: string, ref: NoticeRef<A>, argument: NoInfer<A>): void {
    if (!this.#cluster.isShared) return
    // What is on disk is found later, too, by who looks for it.
    void this.#elsewhere(nodeId).then(gateway => {
      if (gateway !== undefined) this.#cluster.tell(ref, argument, gateway)
    })
  }

  #elsewhere(nodeId: string, withinMs?: number): Promise<string | undefined> {
    if (!this.#cluster.isShared || this.#parts.presence.get(nodeId)) return nowhere
    return this.#owners.elsewhere(nodeId, withinMs)
  }
}

const nowhere = Promise.resolve(undefined)

const ownerOf = ({ tenant, userId }: Owner): Owner => ({ tenant, userId })

/** Without what is not set: JSON has no `undefined`. */
const plain = ({ command, params, timeoutMs, agentId, sessionId }: NewCommand) => ({
  command,
  ...(params === undefined ? {} : { params }),
  ...(timeoutMs === undefined ? {} : { timeoutMs }),
  ...(agentId === undefined ? {} : { agentId }),
  ...(sessionId === undefined ? {} : { sessionId }),
})
