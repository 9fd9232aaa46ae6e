import type { LanguageModel } from 'ai'
import type { Log } from '../../core/log.js'
import type { Generated, GenerateRequest, ModelMessage } from './contract.js'
import { bindTools } from './toolCalls.js'

interface Conversation {
  /** The provider's, for the log. */
  name: string
  /** Model calls for one answer, each of which may ask for tools. */
  maxSteps: number
  /** After the first try of each. */
  retries: number
  log: Log
}

/** Asks the model until it answers with a text, and runs the tools that it asks for on the way. */
export const converse = async (
  model: LanguageModel,
  { name, maxSteps, retries, log }: Conversation,
  request: GenerateRequest,
  signal: AbortSignal,
): Promise<Omit<Generated, 'model'>> => {
  const { generateText, stepCountIs } = await import('ai')
  // The library would write its warnings to stdout, which is not its to write to.
  globalThis.AI_SDK_LOG_WARNINGS = ({ warnings }) => log.warn({ provider: name, warnings }, 'the model library warns')
  const { tools, calls } = bindTools(request.tools ?? [])
  const result = await generateText({
    model,
    messages: alternating(request.messages),
    tools,
    stopWhen: stepCountIs(maxSteps),
    // The last step has to be the answer.
    prepareStep: ({ stepNumber }) => (stepNumber > 0 && stepNumber === maxSteps - 1 ? { toolChoice: 'none' } : {}),
    maxRetries: retries,
    abortSignal: signal,
    ...(request.system ? { system: request.system } : {}),
  })
  const { inputTokens, outputTokens } = result.totalUsage
  return {
    text: result.text,
    calls,
    usage: { ...(inputTokens === undefined ? {} : { inputTokens }), ...(outputTokens === undefined ? {} : { outputTokens }) },
  }
}

/** One message for each turn of a side: several in a row, as after a failed answer, are refused by some models. */
const alternating = (messages: ModelMessage[]): { role: 'user' | 'assistant'; content: string }[] => {
  const merged: { role: 'user' | 'assistant'; content: string }[] = []
  for (const message of messages) {
    const last = merged.at(-1)
    if (last?.role === message.role) last.content += `\n\n${withAttachments(message)}`
    else merged.push({ role: message.role, content: withAttachments(message) })
  }
  return merged
}

const withAttachments = ({ content, attachments = [] }: ModelMessage): string =>
  [content, ...attachments.map(({ name, text }) => `Attached document ${JSON.stringify(name)}:\n${text}`)].join('\n\n')
