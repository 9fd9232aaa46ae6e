import type { Sight } from './between.js'
import type { Heartbeat } from './protocol.js'
import type { NodeSession } from './session.js'

/** What a polling node was given: until when it is not given again; `Infinity` for good. */
export type Offered = Map<string, number>

/** A node that is there, over a connection or by polling. */
interface Present {
  /** By the clock that no one sets. */
  heardMs: number
  session: NodeSession | undefined
  offered: Offered | undefined
  heartbeat: Heartbeat | undefined
}

interface Parts {
  offlineAfterMs: () => number
  /** Called when a node comes or goes. */
  onChange: (nodeId: string, status: 'online' | 'offline') => void
  /** Called each time that a node is heard of. */
  onHeard?: (nodeId: string, isConnection: boolean) => void
}

/**
 * Which nodes are online here. Entries stand in the order in which they were last heard of, so that neither a heartbeat
 * nor the look for silent nodes takes longer with more of them.
 */
export class Presence {
  readonly #parts: Parts
  readonly #present = new Map<string, Present>()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  get ids(): string[] {
    return [...this.#present.keys()]
  }

  eachSession(visit: (session: NodeSession) => void): void {
    for (const { session } of this.#present.values()) if (session) visit(session)
  }

  /** When an online node was last heard of. */
  seenAt(nodeId: string): Date | undefined {
    const heardMs = this.#present.get(nodeId)?.heardMs
    return heardMs === undefined ? undefined : new Date(Date.now() - (performance.now() - heardMs))
  }

  session(nodeId: string): NodeSession | undefined {
    return this.#present.get(nodeId)?.session
  }

  get(nodeId: string): Readonly<Present> | undefined {
    return this.#present.get(nodeId)
  }

  /** How an online node is shown. */
  sight(nodeId: string): Sight | undefined {
    const present = this.#present.get(nodeId)
    if (!present) return undefined
    const { session, heartbeat } = present
    return {
      transport: session?.transport.name ?? 'polling',
      seenAt: (this.seenAt(nodeId) ?? new Date()).toISOString(),
      ...(session ? { protocolVersion: session.version } : {}),
      ...(heartbeat ? { heartbeat } : {}),
    }
  }

  /** The connection is the node's from now on; the one before it is replaced. */
  connected(session: NodeSession): void {
    const before = this.#present.get(session.node.id)?.session
    this.#hear(session.node.id, { session, offered: undefined })
    before?.end('replaced', false)
  }

  /** No effect when another connection has taken its place. */
  disconnected(session: NodeSession): void {
    session.isEnded = true
    if (this.session(session.node.id) === session) this.gone(session.node.id)
  }

  heartbeat(nodeId: string, heartbeat: Heartbeat): void {
    this.#hear(nodeId, { heartbeat })
  }

  /** The node polls: what it was given so far. `undefined` while it is connected. */
  polled(nodeId: string): Offered | undefined {
    const known = this.#present.get(nodeId)
    if (known?.session) return undefined
    const offered = known?.offered ?? new Map<string, number>()
    this.#hear(nodeId, { offered })
    return offered
  }

  gone(nodeId: string): void {
    if (this.#present.delete(nodeId)) this.#parts.onChange(nodeId, 'offline')
  }

  /** The node is at another gateway now. */
  lost(nodeId: string, mayReturn: boolean): void {
    const session = this.session(nodeId)
    this.gone(nodeId)
    session?.end('replaced', mayReturn)
  }

  /** Lets go of nodes that have not been heard of for too long. */
  sweep(): void {
    const limit = performance.now() - this.#parts.offlineAfterMs()
    for (const [nodeId, { heardMs, session }] of this.#present) {
      if (heardMs > limit) return
      this.gone(nodeId)
      session?.end('heartbeat_timeout', true)
    }
  }

  #hear(nodeId: string, change: Partial<Present>): void {
    const known = this.#present.get(nodeId)
    const next = known ?? { heardMs: 0, session: undefined, offered: undefined, heartbeat: undefined }
    Object.assign(next, change)
    next.heardMs = performance.now()
    // To the end of the order.
    if (known) this.#present.delete(nodeId)
    this.#present.set(nodeId, next)
    if (!known) this.#parts.onChange(nodeId, 'online')
    this.#parts.onHeard?.(nodeId, change.session !== undefined)
  }
}
