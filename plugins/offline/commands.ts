import { z } from 'zod'
import type { ModelTool } from '../models/contract.js'

/** A line of chat that begins with a slash: which tool it stands for, and how its text becomes the tool's parameters. */
interface Command {
  name: string
  usage: string
  help: string
  tool: string
  /** `undefined`: the command needs a text and has none. */
  parameters: (text: string) => Record<string, unknown> | undefined
  answer: (result: unknown, text: string) => string
}

/** One passage found in what the user has stored, and where. */
export interface Quote {
  text: string
  source: string
}

const MAX_QUOTES = 5

const Hit = z.object({
  text: z.string().optional(),
  passage: z.string().optional(),
  name: z.string().optional(),
  createdAt: z.string().optional(),
})
const Hits = z.array(Hit)
const Remembered = z.object({ id: z.string() })
const Now = z.object({ local: z.string() })

const whole = (text: string): { text: string } | undefined => (text === '' ? undefined : { text })
const query = (text: string): { query: string; limit: number } | undefined => (text === '' ? undefined : { query: text, limit: MAX_QUOTES })

/** What a search tool found, as quotes. */
const quotes = (result: unknown, sourceOf: (hit: z.output<typeof Hit>) => string): Quote[] =>
  Hits.parse(result).flatMap(hit => {
    const text = (hit.passage ?? hit.text ?? '').trim()
    return text === '' ? [] : [{ text, source: sourceOf(hit) }]
  })

const memoryQuotes = (result: unknown): Quote[] =>
  quotes(result, ({ createdAt }) => `memory${createdAt ? `, ${createdAt.slice(0, 10)}` : ''}`)
const documentQuotes = (result: unknown): Quote[] => quotes(result, ({ name }) => `document ${name ?? 'without a name'}`)

/** The searches that plain questions go through, in the order of their answer. */
export const searches = [
  { tool: 'memory.search', read: memoryQuotes },
  { tool: 'documents.search', read: documentQuotes },
]

export const render = (found: Quote[]): string =>
  found.map(({ text, source }) => `> ${text.replaceAll('\n', '\n> ')}\n— ${source}`).join('\n\n')

const orNothing = (found: Quote[], text: string, where: string): string =>
  found.length > 0 ? render(found) : `Nothing about "${text}" in ${where}.`

export const commands: Command[] = [
  {
    name: 'remember',
    usage: '/remember TEXT',
    help: 'keep a text',
    tool: 'memory.remember',
    parameters: whole,
    answer: result => `Remembered (${Remembered.parse(result).id}).`,
  },
  {
    name: 'recall',
    usage: '/recall QUERY',
    help: 'find what was remembered',
    tool: 'memory.search',
    parameters: query,
    answer: (result, text) => orNothing(memoryQuotes(result), text, 'memory'),
  },
  {
    name: 'documents',
    usage: '/documents QUERY',
    help: 'find passages of your documents',
    tool: 'documents.search',
    parameters: query,
    answer: (result, text) => orNothing(documentQuotes(result), text, 'your documents'),
  },
  {
    name: 'time',
    usage: '/time',
    help: 'tell the time',
    tool: 'time.now',
    parameters: () => ({}),
    answer: result => Now.parse(result).local,
  },
]

/** Runs a tool of the request; `undefined` when the agent has no such tool. */
export const callTool = async (
  tools: readonly ModelTool[],
  name: string,
  parameters: unknown,
): Promise<{ result: unknown } | undefined> => {
  const tool = tools.find(candidate => candidate.name === name)
  return tool && { result: await tool.execute(tool.parameters.parse(parameters)) }
}
