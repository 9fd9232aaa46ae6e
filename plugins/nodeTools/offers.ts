import { isCommandName, isInScope, isFamilyScope } from '../nodes/contract.js'
import type { Node } from '../nodes/contract.js'
import { catalogue, unknownCommand, type KnownCommand } from './catalogue.js'

/** Tools of nodes that one agent is offered at once. Model APIs take 128 in all. */
export const MAX_OFFERS = 100
/** Where the names of node tools begin: `nodes.<node>.<command>`. */
export const FAMILY = 'nodes'

/** One command of one node. */
export interface Offer {
  tool: string
  node: Node
  command: string
  known: KnownCommand
}

/**
 * What a node may be asked to do: the scopes that it was granted, written as commands. A family's scope stands for the
 * commands of that family which the node says it has, or, where it says nothing, which are known.
 */
export const commandsOf = ({ scopes, capabilities }: Pick<Node, 'scopes' | 'capabilities'>): string[] => {
  const named = scopes.filter(scope => !isFamilyScope(scope))
  // What a machine calls its commands is read by models: a name, and no text.
  const able = capabilities.length > 0 ? capabilities.filter(isCommandName) : [...catalogue.keys()]
  const allowed = new Set([...named, ...able.filter(command => isInScope(command, scopes))])
  const known = [...catalogue.keys()].filter(command => allowed.has(command))
  return [...known, ...[...allowed].filter(command => !catalogue.has(command)).sort()]
}

/** The tools that an agent is offered, each node's in turn, so that no node takes the room of all others. */
export const offersOf = (nodes: readonly Node[], isAllowed: (tool: string) => boolean): Offer[] => {
  const queues = nodes.map(node =>
    commandsOf(node)
      .map(command => ({
        tool: `${FAMILY}.${node.id}.${command}`,
        node,
        command,
        known: catalogue.get(command) ?? unknownCommand(command),
      }))
      .filter(({ tool }) => isAllowed(tool)),
  )
  const turns = Math.max(0, ...queues.map(({ length }) => length))
  return Array.from({ length: turns }, (_, turn) => queues.flatMap(queue => queue[turn] ?? []))
    .flat()
    .slice(0, MAX_OFFERS)
}
