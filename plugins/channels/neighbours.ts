import type { Log } from '../../core/log.js'
import type { Connector } from './connector.js'
import type { Leases } from './leases.js'
import type { NoteKind, Notes } from './notes.js'

/** How often notes of other gateways are looked for, and channels that one of them has left. */
const NOTES_MS = 1000

interface NeighbourParts {
  /** Whether other gateways may be on the store. Alone there is nobody to leave a note. */
  shared: boolean
  leases: Leases
  notes: Notes
  connector: Connector
  kick: (channelId: string) => void
  log: Log
}

/** What gateways on one store tell each other, and take over from each other. */
export class Neighbours {
  readonly #parts: NeighbourParts
  #timer: NodeJS.Timeout | undefined
  #stopped = false
  #looking: Promise<void> = Promise.resolve()

  constructor(parts: NeighbourParts) {
    this.#parts = parts
  }

  start(): void {
    if (this.#parts.shared && !this.#stopped) this.#timer = setTimeout(() => void (this.#looking = this.#look()), NOTES_MS).unref()
  }

  async stop(): Promise<void> {
    this.#stopped = true
    clearTimeout(this.#timer)
    await this.#looking
  }

  /** For the other gateway that holds the channel. One that takes it later looks at everything by itself. */
  async tell(channelId: string, kind: NoteKind): Promise<void> {
    const { shared, leases, notes } = this.#parts
    if (!shared || leases.has(channelId)) return
    if ((await leases.elsewhere([channelId])).size > 0) await notes.leave(channelId, kind)
  }

  async #look(): Promise<void> {
    const { leases, notes, connector, kick, log } = this.#parts
    try {
      for (const { channelId, kind } of await notes.take(channelId => leases.has(channelId))) {
        if (kind === 'changed') this.#follow(connector.reconcile(channelId, { atOnce: true }), channelId)
        kick(channelId)
      }
      for (const channelId of await leases.freeAbandoned()) {
        this.#follow(connector.reconcile(channelId), channelId)
        kick(channelId)
      }
    } catch (error) {
      log.error({ err: error }, 'what other gateways left could not be looked for')
    }
    this.start()
  }

  #follow(reconciled: Promise<unknown>, channelId: string): void {
    reconciled.catch((error: unknown) => {
      this.#parts.log.error({ err: error, channelId }, 'a channel that another gateway left or changed could not be connected')
    })
  }
}
