import { z } from 'zod'
import type { ModelTool } from '../models/contract.js'

/** A line of chat that begins with a slash: which tool it stands for, and how its text becomes the tool's parameters. */
interface Command {
  name: string
  usage: string
  help: string
  /** The tool, or which of several it is, by the text. */
  tool: string | ((text: string) => string)
  /** Of several: whether a tool is one of them. */
  takes?: (tool: string) => boolean
  /** `undefined`: the command needs a text and has none, or not such a one. */
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

const Outcome = z.object({ ok: z.boolean(), result: z.unknown().optional(), error: z.object({ message: z.string() }).optional() })

/** `MACHINE COMMAND {parameters}` */
const RUN = /^([A-Za-z0-9_-]+)\s+([A-Za-z0-9_.-]+)(?:\s+(\{[\s\S]*\}))?$/

const parametersOfRun = (text: string): Record<string, unknown> | undefined => {
  const match = RUN.exec(text)
  if (!match) return undefined
  try {
    return JSON.parse(match[3] ?? '{}') as Record<string, unknown>
  } catch {
    return undefined
  }
}

const toolOfRun = (text: string): string => {
  const [, machine = '', command = ''] = RUN.exec(text) ?? []
  return `nodes.${machine}.${command}`
}

const answerOfRun = (outcome: unknown): string => {
  const { ok, result, error } = Outcome.parse(outcome)
  return ok ? `Done:\n\n${JSON.stringify(result, null, 2)}` : `It was not done: ${error?.message ?? 'the machine gave no reason'}`
}

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
  {
    name: 'run',
    usage: '/run MACHINE COMMAND [{"PARAMETER": VALUE}]',
    help: 'let a machine of yours do something',
    tool: toolOfRun,
    takes: tool => /^nodes\.[^.]+\./.test(tool),
    parameters: parametersOfRun,
    answer: answerOfRun,
  },
]

/** The name of the tool that a command stands for. */
export const toolOf = ({ tool }: Command, text: string): string => (typeof tool === 'string' ? tool : tool(text))

/** Whether the command is of use with these tools. */
export const isUsable = ({ tool, takes }: Command, tools: readonly ModelTool[]): boolean =>
  tools.some(({ name }) => (takes ? takes(name) : name === tool))

/** Runs a tool of the request; `undefined` when the agent has no such tool. */
export const callTool = async (
  tools: readonly ModelTool[],
  name: string,
  parameters: unknown,
): Promise<{ result: unknown } | undefined> => {
  const tool = tools.find(candidate => candidate.name === name)
  return tool && { result: await tool.execute(tool.parameters.parse(parameters)) }
}
