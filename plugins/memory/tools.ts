import { createHash } from 'node:crypto'
import { z } from 'zod'
import type { Tool } from '../tools/contract.js'
import { MAX_ENTRY_LENGTH, type Memory } from './contract.js'

const Remembered = z.object({ text: z.string().min(1).max(MAX_ENTRY_LENGTH).meta({ description: 'What to remember, in full sentences.' }) })

const Query = z.object({
  query: z.string().min(1).max(1_000),
  limit: z.int().min(1).max(20).default(5),
})

/** What agents can do with the memory. */
export const memoryTools = (memory: Memory): [Tool<typeof Remembered>, Tool<typeof Query>] => [
  {
    name: 'memory.remember',
    description: 'Remembers a fact for later conversations with this user.',
    parameters: Remembered,
    execute: ({ text }, { owner, agentId, sessionId, taskId }) =>
      // A task that is run again after a crash remembers the same text once.
      memory.remember(owner, text, {
        agentId,
        sessionId,
        idempotencyKey: `${taskId}:${createHash('sha256').update(text).digest('base64url')}`,
      }),
  },
  {
    name: 'memory.search',
    description: 'Finds what was remembered for this user, best match first.',
    parameters: Query,
    execute: async ({ query, limit }, { owner }) =>
      (await memory.search(owner, query, limit)).map(({ id, text, score, createdAt }) => ({ id, text, score, createdAt })),
  },
]
