import type { Cluster } from '../../core/cluster/cluster.js'
import type { Commands } from './commands.js'
import type { Directory } from './directory.js'
import type { Dispatcher } from './dispatcher.js'
import type { Hub } from './hub/hub.js'
import type { Ledger } from './ledger.js'
import type { Presence } from './presence.js'

/** How much earlier than the last look a change may be dated: a gateway may not know the others' clock yet, and writes take their time. */
const MARGIN_MS = 30_000
const PAGE = 500
/** Pages of one look; the next one goes on from there. */
const MAX_PAGES = 20

interface Parts {
  cluster: Cluster
  presence: Presence
  ledger: Ledger
  directory: Directory
  dispatcher: Dispatcher
  commands: Commands
  hub: Hub
}

/**
 * Finds on disk what no other gateway could tell: commands for nodes that are here, the ends of those that somebody waits
 * for, and changes of nodes. With one gateway there is nothing to find.
 */
export class CatchUp {
  readonly #parts: Parts
  #commandsFrom: number
  #nodesFrom: number

  constructor(parts: Parts) {
    this.#parts = parts
    this.#commandsFrom = this.#nodesFrom = parts.cluster.now()
  }

  async look(): Promise<void> {
    if (!this.#parts.cluster.isShared) return
    await this.#parts.commands.lookAfterFollowed()
    this.#commandsFrom = await this.#each(
      this.#commandsFrom,
      since => this.#parts.ledger.openSince(since, PAGE),
      ({ id, nodeId }) => this.#bring(id, nodeId),
    )
    this.#nodesFrom = await this.#each(
      this.#nodesFrom,
      since => this.#parts.directory.changedSince(since, PAGE),
      async ({ id }) => {
        if (this.#parts.presence.get(id)) await this.#parts.hub.changed(id)
      },
    )
  }

  #bring(id: string, nodeId: string): void {
    const session = this.#parts.presence.session(nodeId)
    if (session && !session.inFlight.has(id)) this.#parts.dispatcher.drain(session)
  }

  /** Walks through what changed since then, in the order of change. Returns from when the next walk goes on. */
  async #each<T extends { updatedAt: string }>(
    from: number,
    page: (since: string) => Promise<T[]>,
    visit: (row: T) => void | Promise<void>,
  ): Promise<number> {
    const startedAt = this.#parts.cluster.now()
    let since = new Date(from - MARGIN_MS).toISOString()
    for (let pages = 0; pages < MAX_PAGES; pages++) {
      const rows = await page(since)
      for (const row of rows) await visit(row)
      const last = rows.at(-1)?.updatedAt
      if (rows.length < PAGE || last === undefined) return startedAt
      // More of the same millisecond than a page holds: they are found a little later.
      since = last === since ? new Date(Date.parse(last) + 1).toISOString() : last
    }
    return Date.parse(since) + MARGIN_MS
  }
}
