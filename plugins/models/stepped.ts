import type { LanguageModel } from 'ai'
import { GatewayError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import type { GenerateMessage } from '../../sdk/protocol.js'
import type { ModelProvider, Step, SteppedProvider, StepRequest } from './contract.js'
import { converse } from './converse.js'
import { failed } from './failed.js'
import { Patience } from './patience.js'
import { unlessAborted } from './unlessAborted.js'

/** Model calls for one answer, each of which may ask for tools. */
const MAX_STEPS = 12

type LibraryModel = Extract<LanguageModel, { specificationVersion: 'v3' }>
type CallOptions = Parameters<LibraryModel['doGenerate']>[0]
type CallResult = Awaited<ReturnType<LibraryModel['doGenerate']>>
type LibraryMessage = CallOptions['prompt'][number]

/** A provider that makes single steps, as one that answers. */
export const stepped = (provider: SteppedProvider, log: Log): ModelProvider => ({
  name: provider.name,
  check: model => provider.check(model),
  describe: () => provider.describe(),
  generate: async (model, request) => {
    const { name } = provider
    const timeoutMs = provider.timeoutMs()
    const patience = new Patience(timeoutMs)
    const signal = AbortSignal.any([request.signal, patience.signal])
    try {
      // What failed for a while was tried again by the provider itself.
      const answered = converse(
        libraryModel(provider, model),
        { name, maxSteps: MAX_STEPS, retries: 0, log },
        patience.with(request),
        signal,
      )
      return { ...(await unlessAborted(signal, answered)), model: model === '' ? name : `${name}/${model}` }
    } catch (error) {
      request.signal.throwIfAborted()
      if (patience.signal.aborted) throw failed(name, `no answer within ${timeoutMs / 1000} s`)
      if (error instanceof GatewayError) throw error
      throw failed(name, error instanceof Error ? error.message : 'it failed without saying why', error)
    } finally {
      patience.end()
    }
  },
})

/** The provider in the form of the library that runs the tools. */
const libraryModel = (provider: SteppedProvider, model: string): LibraryModel => ({
  specificationVersion: 'v3',
  provider: provider.name,
  modelId: model,
  supportedUrls: {},
  doGenerate: async ({ prompt, tools = [], toolChoice, abortSignal }) => {
    const request: StepRequest = {
      model,
      ...systemOf(prompt),
      messages: prompt.flatMap(fromLibrary),
      tools: tools.flatMap(tool =>
        tool.type === 'function'
          ? [{ name: tool.name, description: tool.description ?? '', parameters: tool.inputSchema as Record<string, unknown> }]
          : [],
      ),
      toolChoice: toolChoice?.type === 'none' ? 'none' : 'auto',
    }
    return toLibrary(await provider.step(request, abortSignal ?? new AbortController().signal))
  },
  doStream: () => Promise.reject(new Error('Answers are read as a whole')),
})

const systemOf = (prompt: LibraryMessage[]): { system?: string } => {
  const texts = prompt.flatMap(message => (message.role === 'system' ? [message.content] : []))
  return texts.length === 0 ? {} : { system: texts.join('\n\n') }
}

const fromLibrary = (message: LibraryMessage): GenerateMessage[] => {
  if (message.role === 'system') return []
  if (message.role === 'tool')
    return message.content.flatMap(part =>
      part.type === 'tool-result' ? [{ role: 'tool', content: showOutput(part.output), toolCallId: part.toolCallId }] : [],
    )
  const content = message.content.map(part => (part.type === 'text' ? part.text : '')).join('')
  if (message.role === 'user') return [{ role: 'user', content }]
  const toolCalls = message.content.flatMap(part =>
    part.type === 'tool-call' ? [{ id: part.toolCallId, name: part.toolName, parameters: asObject(part.input) }] : [],
  )
  return [{ role: 'assistant', content, ...(toolCalls.length === 0 ? {} : { toolCalls }) }]
}

type Output = Extract<Extract<LibraryMessage, { role: 'tool' }>['content'][number], { type: 'tool-result' }>['output']

const showOutput = (output: Output): string => {
  if (output.type === 'text' || output.type === 'error-text') return output.value
  return output.type === 'execution-denied' ? (output.reason ?? 'denied') : JSON.stringify(output.value)
}

const asObject = (input: unknown): Record<string, unknown> =>
  typeof input === 'object' && input !== null && !Array.isArray(input) ? (input as Record<string, unknown>) : {}

const toLibrary = ({ text, toolCalls, usage }: Step): CallResult => ({
  content: [
    ...(text === '' ? [] : [{ type: 'text' as const, text }]),
    ...toolCalls.map(({ id, name, parameters }) => ({
      type: 'tool-call' as const,
      toolCallId: id,
      toolName: name,
      input: JSON.stringify(parameters),
    })),
  ],
  finishReason: { unified: toolCalls.length > 0 ? 'tool-calls' : 'stop', raw: undefined },
  usage: {
    inputTokens: { total: usage.inputTokens, noCache: undefined, cacheRead: undefined, cacheWrite: undefined },
    outputTokens: { total: usage.outputTokens, text: undefined, reasoning: undefined },
  },
  warnings: [],
})
