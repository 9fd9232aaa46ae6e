import { createHash } from 'node:crypto'
import { z } from 'zod'
import { ADMIN_ROLE } from '../../core/http/caller.js'
import type { Owner } from '../../core/store/collection.js'
import type { Documents } from '../documents/contract.js'
import type { Identity } from '../identity/contract.js'
import type { CommandOutcome, Nodes } from '../nodes/contract.js'
import type { Tool, ToolContext, ToolSource } from '../tools/contract.js'
import { commandsOf, FAMILY, offersOf, type Offer } from './offers.js'
import { perform, refusalOf } from './perform.js'
import { present } from './present.js'

/** What sending commands needs, of whoever does it. */
const PERMISSION = 'ExecuteCommands'
/** After the start of a gateway its nodes come back within this time; until then one that has not is not taken for gone. */
const RETURN_MS = 60_000

interface Parts {
  nodes: Nodes
  documents: Documents
  identity: Identity
  approvalMs: () => number
}

/** The commands of an owner's nodes, as tools of the owner's agents. */
export class NodeTools implements ToolSource {
  readonly #parts: Parts
  readonly #startedMs = performance.now()
  /** Nodes that went offline since the start; kept as long as others may still come back. */
  readonly #gone = new Set<string>()

  constructor(parts: Parts) {
    this.#parts = parts
  }

  async toolsFor(owner: Owner, isAllowed: (name: string) => boolean, permissions?: readonly string[]): Promise<Tool[]> {
    const nodes = await this.#parts.nodes.list(owner)
    const offers = offersOf(
      nodes.filter(({ id, status }) => status === 'online' || this.#mayReturn(id)),
      isAllowed,
    )
    if (offers.length === 0 || !(await this.#mayExecute(owner, permissions))) return []
    const calls = new Map<string, number>()
    return offers.map(offer => ({
      name: offer.tool,
      description: `${offer.known.description} On the machine ${labelOf(offer.node)}.`,
      parameters: offer.known.parameters,
      execute: (parameters, context) => this.#execute(offer, parameters as Record<string, unknown>, calls, context),
    }))
  }

  /** A node came or went. */
  noted(nodeId: string, status: 'online' | 'offline'): void {
    if (status === 'online' || !this.#isYoung) this.#gone.delete(nodeId)
    else this.#gone.add(nodeId)
  }

  /** Tells an agent what there is, also what is offline and so has no tools. */
  get list(): Tool {
    const { nodes } = this.#parts
    return {
      name: `${FAMILY}.list`,
      description: "Lists this user's machines: which are online, and what each may be asked to do.",
      parameters: z.object({}),
      execute: async (_, { owner }) =>
        (await nodes.list(owner)).map(node => {
          const { id, name, status, platform, lastSeenAt } = node
          return { id, name, status, platform, lastSeenAt, commands: commandsOf(node) }
        }),
    }
  }

  async #execute(
    { node, command, known }: Offer,
    parameters: Record<string, unknown>,
    calls: Map<string, number>,
    { owner, agentId, sessionId, taskId, signal, resting }: ToolContext,
  ): Promise<unknown> {
    const { nodes, approvalMs } = this.#parts
    const { timeoutMs, ...params } = 'timeoutMs' in known.parameters.shape ? parameters : { ...parameters, timeoutMs: undefined }
    const same = createHash('sha256')
      .update(JSON.stringify([node.id, command, parameters]))
      .digest('base64url')
    const number = (calls.get(same) ?? 0) + 1
    calls.set(same, number)
    // A task that is run again after a crash finds the commands that it sent, however often it sent the same.
    const sent = { command, params, timeoutMs: timeoutMs as number | undefined, agentId, sessionId, key: `${taskId}:${same}:${number}` }
    try {
      const outcome = await perform({ nodes, owner, nodeId: node.id, command: sent, approvalMs: approvalMs(), signal, resting })
      return await this.#show(owner, outcome, `${node.id}-${command.replaceAll('.', '-')}`)
    } catch (error) {
      const refusal = signal.aborted ? undefined : refusalOf(error)
      if (!refusal) throw error
      return { ok: false, error: refusal }
    }
  }

  async #show(owner: Owner, { ok, result = {}, error, truncated = [] }: CommandOutcome, name: string): Promise<unknown> {
    if (ok !== true) return { ok: false, error }
    const at = new Date().toISOString().replace(/[:.]/g, '-')
    const shown = await present(result, truncated, ({ extension, mimeType, bytes }) =>
      this.#parts.documents.add(owner, { name: `${name}-${at}.${extension}`, mimeType, bytes }),
    )
    return { ok: true, result: shown }
  }

  get #isYoung(): boolean {
    return performance.now() - this.#startedMs < RETURN_MS
  }

  #mayReturn(nodeId: string): boolean {
    return this.#isYoung && !this.#gone.has(nodeId)
  }

  async #mayExecute({ userId }: Owner, permissions?: readonly string[]): Promise<boolean> {
    if (permissions && !permissions.includes(PERMISSION)) return false
    const user = await this.#parts.identity.user(userId)
    return user !== null && (user.roles.includes(ADMIN_ROLE) || user.permissions.includes(PERMISSION))
  }
}

/** What a machine says of itself stands in a model's instructions: short, and marked as its own words. */
const MAX_LABEL_LENGTH = 60
const quoted = (text: string): string => JSON.stringify(text.length > MAX_LABEL_LENGTH ? `${text.slice(0, MAX_LABEL_LENGTH)}…` : text)

const labelOf = ({ id, name, platform }: Offer['node']): string =>
  [
    id,
    ...(name === id ? [] : [`which calls itself ${quoted(name)}`]),
    ...(platform === undefined ? [] : [`(it says: ${quoted(platform)})`]),
  ].join(' ')
