import { notFound } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import type { Owner } from '../../core/store/collection.js'
import type { Audit } from '../audit/contract.js'
import { DEFAULT_TIMEOUT_MS, type Commands } from './commands.js'
import type { CommandOutcome, NewCommand, Node, Nodes } from './contract.js'
import type { Directory } from './directory.js'
import type { Hub } from './hub/hub.js'
import type { Ledger } from './ledger.js'
import type { Pairing } from './pairing.js'
import type { Presence } from './presence.js'
import type { Reach } from './reach.js'
import { toNode } from './view.js'

interface Parts {
  directory: Directory
  pairing: Pairing
  presence: Presence
  reach: Reach
  ledger: Ledger
  commands: Commands
  hub: Hub
  audit: Audit
}

/** What people and other areas do with nodes; each change reaches the disk, then the node, then the audit. */
export class NodeService implements Nodes {
  readonly #parts: Parts

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async list(owner: Owner): Promise<Node[]> {
    const rows = await this.#parts.directory.ownedBy(owner)
    const seen = await this.#parts.reach.sights(rows.map(({ id }) => id))
    return rows.map(row => toNode(row, seen.get(row.id)))
  }

  async run(owner: Owner, nodeId: string, command: NewCommand, signal: AbortSignal): Promise<CommandOutcome> {
    const { directory, commands, ledger } = this.#parts
    const node = await directory.find(nodeId)
    if (!node || !isOwner(owner, node)) throw notFound('Node')
    const { id } = await commands.enqueue(owner, node, command)
    const find = async () => {
      const row = await ledger.find(id)
      if (!row) throw notFound('Command')
      return row
    }
    return commands.wait(find, id, undefined, signal)
  }

  async call(owner: Owner, nodeId: string, command: NewCommand): Promise<CommandOutcome> {
    const session = this.#parts.presence.session(nodeId)
    // The connection knows whose it is and what it may: nothing is read from disk.
    if (session && !isOwner(owner, session.node)) throw notFound('Node')
    const outcome = session ? undefined : await this.#parts.reach.call(owner, nodeId, command, command.timeoutMs ?? DEFAULT_TIMEOUT_MS)
    if (outcome) return outcome
    return this.#parts.commands.call(owner, session, command)
  }

  async approve(caller: Caller, nodeId: string, scopes: string[]): Promise<Node> {
    const { pairing, audit } = this.#parts
    await pairing.approve(caller, nodeId, scopes)
    await audit.record(caller, { action: 'nodes.approve', target: nodeId, details: { scopes } })
    return this.#shown(caller, nodeId)
  }

  async reject(caller: Caller, nodeId: string): Promise<void> {
    await this.#parts.pairing.reject(nodeId)
    await this.#parts.audit.record(caller, { action: 'nodes.reject', target: nodeId })
  }

  async revoke(caller: Caller, nodeId: string): Promise<Node> {
    const { directory, pairing, hub, reach, commands, audit } = this.#parts
    await directory.visible(caller, nodeId)
    const revoked = await directory.revoke(nodeId)
    hub.revoked(nodeId)
    reach.changed(nodeId)
    if (revoked) {
      await pairing.forget(nodeId, revoked.pairing)
      await audit.record(caller, { action: 'nodes.revoke', target: nodeId })
    }
    await commands.endAll(nodeId, 'The node was revoked')
    return this.#shown(caller, nodeId)
  }

  async setScopes(caller: Caller, nodeId: string, scopes: string[]): Promise<Node> {
    const { directory, hub, reach, audit } = this.#parts
    await directory.visible(caller, nodeId)
    if (!(await directory.setScopes(nodeId, scopes))) throw notFound('Node')
    hub.scopesSet(nodeId, scopes)
    reach.changed(nodeId)
    await audit.record(caller, { action: 'nodes.permissions', target: nodeId, details: { scopes } })
    return this.#shown(caller, nodeId)
  }

  async rotateToken(caller: Caller, nodeId: string): Promise<{ token: string; oldTokenUntil: string | null }> {
    const { directory, hub, reach, audit } = this.#parts
    const rotated = await directory.rotate(await directory.visible(caller, nodeId))
    if (rotated.oldTokenUntil !== null) hub.rotated(nodeId, rotated.oldTokenUntil)
    reach.changed(nodeId)
    await audit.record(caller, { action: 'nodes.rotateToken', target: nodeId })
    return rotated
  }

  async #shown(caller: Caller, nodeId: string): Promise<Node> {
    const row = await this.#parts.directory.visible(caller, nodeId)
    return toNode(row, (await this.#parts.reach.sights([nodeId])).get(nodeId))
  }
}

const isOwner = (owner: Owner, node: { tenant: string | null; ownerId: string }): boolean =>
  node.tenant === owner.tenant && node.ownerId === owner.userId
