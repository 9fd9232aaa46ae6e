import type { Tool as LibraryTool } from 'ai'
import type { ModelTool, ToolCall } from './contract.js'

/** What one tool's result may take of the model's context, in characters of JSON. */
const MAX_RESULT_LENGTH = 32_768
const MAX_WIRE_NAME = 64

/** The tools in the library's form, and the list that fills with the calls made of them. */
export const bindTools = (tools: readonly ModelTool[]): { tools: Record<string, LibraryTool>; calls: ToolCall[] } => {
  const calls: ToolCall[] = []
  const bound: Record<string, LibraryTool> = {}
  for (const tool of tools) {
    bound[wireName(tool.name, bound)] = {
      description: tool.description,
      inputSchema: tool.parameters,
      execute: (parameters: unknown) => record(tool, parameters, calls),
    }
  }
  return { tools: bound, calls }
}

/** Function names of the protocol have no dots: `memory.search` is `memory_search` there. Of a long one both ends are kept. */
const wireName = (name: string, taken: Record<string, unknown>): string => {
  const whole = name.replace(/[^A-Za-z0-9_-]/g, '_')
  const half = MAX_WIRE_NAME / 2
  const plain = whole.length <= MAX_WIRE_NAME ? whole : `${whole.slice(0, half - 1)}_${whole.slice(-half)}`
  for (let number = 1; ; number += 1) {
    const suffix = number === 1 ? '' : `_${number}`
    const candidate = plain.slice(0, MAX_WIRE_NAME - suffix.length) + suffix
    if (!(candidate in taken)) return candidate
  }
}

const record = async (tool: ModelTool, parameters: unknown, calls: ToolCall[]): Promise<unknown> => {
  const call: ToolCall = { name: tool.name, parameters }
  calls.push(call)
  try {
    call.result = bounded((await tool.execute(parameters)) ?? null)
    return call.result
  } catch (error) {
    call.error = error instanceof Error ? error.message : String(error)
    throw error
  }
}

const bounded = (result: unknown): unknown => {
  const json = JSON.stringify(result)
  if (json.length <= MAX_RESULT_LENGTH) return result
  return { truncated: true, characters: json.length, beginning: json.slice(0, MAX_RESULT_LENGTH) }
}
