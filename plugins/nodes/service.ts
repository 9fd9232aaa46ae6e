import { notFound } from '../../core/errors.js'
import type { Caller } from '../../core/http/caller.js'
import type { Owner } from '../../core/store/collection.js'
import type { Audit } from '../audit/contract.js'
import type { Commands } from './commands.js'
import type { CommandOutcome, NewCommand, Node, Nodes } from './contract.js'
import type { Directory } from './directory.js'
import type { Hub } from './hub/hub.js'
import type { KnownCommand, Ledger } from './ledger.js'
import { DEFAULT_TIMEOUT_MS } from './newCommand.js'
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

  async enqueue(owner: Owner, nodeId: string, command: NewCommand): Promise<CommandOutcome> {
    const { directory, commands, ledger } = this.#parts
    const node = await directory.find(nodeId)
    if (!node || !isOwner(owner, node)) throw notFound('Node')
    return ledger.outcome(await commands.enqueue(owner, node, command))
  }

  wait(owner: Owner, commandId: string, timeoutMs: number | undefined, signal: AbortSignal): Promise<CommandOutcome> {
    return this.#parts.commands.wait(() => this.#own(owner, commandId), commandId, timeoutMs, signal)
  }

  async cancel(owner: Owner, commandId: string, message: string): Promise<CommandOutcome> {
    const { commands, ledger } = this.#parts
    await this.#own(owner, commandId)
    return ledger.outcome((await commands.end(commandId, message)) ?? (await this.#own(owner, commandId)))
  }

  async run(owner: Owner, nodeId: string, command: NewCommand, signal: AbortSignal): Promise<CommandOutcome> {
    const { commandId } = await this.enqueue(owner, nodeId, command)
    return this.wait(owner, commandId, undefined, signal)
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
    const { directory, audit } = this.#parts
    await directory.visible(caller, nodeId)
    await this.#revoke(nodeId, () => audit.record(caller, { action: 'nodes.revoke', target: nodeId }))
    return this.#shown(caller, nodeId)
  }

  /** Every node of an owner who is gone. */
  async revokeAll(owner: Owner): Promise<void> {
    const { directory, pairing, audit } = this.#parts
    await pairing.forgetAll(owner)
    const { tenant } = owner
    for (let nodes = await directory.ownedBy(owner); nodes.length > 0; nodes = await directory.ownedBy(owner))
      for (const { id } of nodes) {
        const details = { reason: 'its owner was removed' }
        await this.#revoke(id, () => audit.record(null, { action: 'nodes.revoke', target: id, tenant, details }))
      }
  }

  async #revoke(nodeId: string, note: () => Promise<void>): Promise<void> {
    const { directory, pairing, hub, reach, commands } = this.#parts
    const revoked = await directory.revoke(nodeId)
    hub.revoked(nodeId)
    reach.changed(nodeId)
    if (revoked) {
      await pairing.forget(nodeId, revoked.pairing)
      await note()
    }
    await commands.endAll(nodeId, 'The node was revoked')
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

  async #own(owner: Owner, commandId: string): Promise<KnownCommand> {
    const row = await this.#parts.ledger.find(commandId)
    if (!row || !isOwner(owner, row)) throw notFound('Command')
    return row
  }

  async #shown(caller: Caller, nodeId: string): Promise<Node> {
    const row = await this.#parts.directory.visible(caller, nodeId)
    return toNode(row, (await this.#parts.reach.sights([nodeId])).get(nodeId))
  }
}

const isOwner = (owner: Owner, node: { tenant: string | null; ownerId: string }): boolean =>
  node.tenant === owner.tenant && node.ownerId === owner.userId
