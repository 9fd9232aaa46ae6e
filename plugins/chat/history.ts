import type { AgentProfile } from '../agents/contract.js'
import type { ModelMessage } from '../models/contract.js'
import type { MessageRow } from './records.js'

/**
 * What the model gets of a conversation before the message at hand: user and assistant messages of earlier turns, in
 * the order of the turns (a message sent while the one before was answered comes after that answer), the newest that
 * fit into `maxCharacters` (about four characters are a token), beginning with a user's.
 */
export const earlierMessages = (rows: readonly MessageRow[], turn: number, maxCharacters: number): ModelMessage[] => {
  const newestFirst = rows
    .filter(row => row.turn < turn && (row.role === 'user' || row.role === 'assistant'))
    .sort((a, b) => b.turn - a.turn || b.part - a.part)
  const kept: ModelMessage[] = []
  let characters = 0
  for (const { role, content } of newestFirst) {
    characters += content.length
    if (characters > maxCharacters) break
    kept.unshift({ role: role as 'user' | 'assistant', content })
  }
  const first = kept.findIndex(({ role }) => role === 'user')
  return first < 0 ? [] : kept.slice(first)
}

/** SOUL.md, with the first message of a session BOOT.md, and the agent's instructions. */
export const systemPrompt = ({ name, soul, boot, instructions = '' }: AgentProfile, isFirstTurn: boolean): string =>
  [`Your name is ${name}.`, soul, isFirstTurn ? boot : '', instructions]
    .map(part => part.trim())
    .filter(Boolean)
    .join('\n\n')
