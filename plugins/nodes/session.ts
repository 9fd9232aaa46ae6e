import { InFlight } from './inFlight.js'
import type { GatewayMethod } from './protocol.js'

/** Commands that one connection may have under way; more wait in the queue. */
export const MAX_IN_FLIGHT = 256
/** Unsent bytes above which a connection gets no further command. */
export const HIGH_WATER_BYTES = 1024 * 1024

export type EndReason =
  'admin_revoked' | 'replaced' | 'heartbeat_timeout' | 'slow' | 'rate_limited' | 'token_rotated' | 'store_unavailable' | 'gateway_stopping'

/** A way to a node: one connection of one protocol. */
export interface Transport {
  readonly name: 'socket.io' | 'signalr'
  send(method: GatewayMethod, argument: unknown): void
  /** Given to the connection and not yet taken by the network. */
  readonly unsentBytes: number
  /** A WebSocket ping, and whatever else the protocol needs to stay up. Ends a connection that does not answer. */
  ping(): void
  /** Sends what was given, then ends the connection. `mayReturn`: an automatic reconnection is welcome. */
  close(reason: EndReason, mayReturn: boolean): void
}

export interface SessionIdentity {
  id: string
  tenant: string | null
  ownerId: string
}

/** One connection of one node, whatever it speaks. */
export class NodeSession {
  readonly node: SessionIdentity
  readonly version: string
  readonly transport: Transport
  /** What proved it. */
  readonly tokenHash: string
  /** Called once the gateway has ended it: nothing that comes over it counts any more, though it may take long to close. */
  readonly #onEnd: (session: NodeSession) => void
  scopes: string[]
  /** What was sent over this connection and has not ended. */
  readonly inFlight = new InFlight()
  /** Commands on their way to disk that will be sent over this connection. */
  reserved = 0
  /** More waits than there was room for. */
  hasBacklog = false
  isDraining = false
  /** Messages of the node that are being worked on. */
  processing = 0
  isEnded = false
  /** Since when more waits to be sent than should, and no command ended. */
  #stuckSince: number | undefined
  #unsolicited = 0
  #windowStart = -Infinity

  constructor(
    node: SessionIdentity & { scopes: string[] },
    version: string,
    tokenHash: string,
    transport: Transport,
    onEnd: (session: NodeSession) => void,
  ) {
    this.node = { id: node.id, tenant: node.tenant, ownerId: node.ownerId }
    this.scopes = node.scopes
    this.version = version
    this.tokenHash = tokenHash
    this.transport = transport
    this.#onEnd = onEnd
  }

  get hasRoom(): boolean {
    return !this.isEnded && this.inFlight.size + this.reserved < MAX_IN_FLIGHT && this.transport.unsentBytes < HIGH_WATER_BYTES
  }

  /** The command is over. Whether it was sent over this connection. */
  release(commandId: string): boolean {
    this.#stuckSince = undefined
    return this.inFlight.delete(commandId)
  }

  send(method: GatewayMethod, argument: unknown): void {
    if (!this.isEnded) this.transport.send(method, argument)
  }

  end(reason: EndReason, mayReturn: boolean): void {
    if (this.isEnded) return
    if (reason === 'admin_revoked') this.send('RevokeAccess', { reason })
    this.isEnded = true
    this.transport.close(reason, mayReturn)
    this.#onEnd(this)
  }

  /** Counts a message that no command asked for. False: it was one too many in this minute. */
  admitUnsolicited(perMinute: number): boolean {
    const now = performance.now()
    if (now - this.#windowStart >= 60_000) {
      this.#windowStart = now
      this.#unsolicited = 0
    }
    this.#unsolicited += 1
    return perMinute === 0 || this.#unsolicited <= perMinute
  }

  /** For how long it has been above its high water without ending a command, in milliseconds. Asked from time to time. */
  stuckMs(now: number): number {
    if (this.transport.unsentBytes < HIGH_WATER_BYTES) this.#stuckSince = undefined
    else this.#stuckSince ??= now
    return this.#stuckSince === undefined ? 0 : now - this.#stuckSince
  }
}
