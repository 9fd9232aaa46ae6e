import { upstreamUnavailable, type GatewayError } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { redact } from '../../core/redaction.js'
import { boundedFetch } from './boundedFetch.js'
import type { Generated, GenerateRequest, ModelMessage, ModelProvider } from './contract.js'
import type { ProviderSettings } from './settings.js'
import { bindTools } from './toolCalls.js'
import { unlessAborted } from './unlessAborted.js'

const MAX_REASON_LENGTH = 300

/** A configured endpoint as a provider. The libraries behind it are loaded by its first answer. */
export const openAiCompatible = (name: string, settings: ProviderSettings, log: Log): ModelProvider => ({
  name,
  check: model => {
    if (model === '' && settings.Model === undefined)
      throw upstreamUnavailable(
        `The model provider "${name}" has no default model: name one as ${name}/MODEL, or set Service:Models:Providers:${name}:Model`,
      )
  },
  generate: async (model, request) => {
    const timeout = AbortSignal.timeout(settings.TimeoutMs)
    const signal = AbortSignal.any([request.signal, timeout])
    try {
      return await unlessAborted(signal, ask(name, settings, model || (settings.Model ?? ''), request, signal, log))
    } catch (error) {
      request.signal.throwIfAborted()
      const reason = timeout.aborted ? `no answer within ${settings.TimeoutMs / 1000} s` : describeFailure(error)
      throw failed(name, reason)
    }
  },
})

const failed = (name: string, reason: string): GatewayError =>
  upstreamUnavailable(`The model provider "${name}" failed: ${redact(reason).slice(0, MAX_REASON_LENGTH)}`)

const ask = async (
  name: string,
  settings: ProviderSettings,
  model: string,
  request: GenerateRequest,
  signal: AbortSignal,
  log: Log,
): Promise<Generated> => {
  const [{ generateText, stepCountIs }, { createOpenAICompatible }] = await Promise.all([import('ai'), import('@ai-sdk/openai-compatible')])
  // The library would write its warnings to stdout, which is not its to write to.
  globalThis.AI_SDK_LOG_WARNINGS = ({ warnings }) => log.warn({ provider: name, warnings }, 'the model library warns')
  const { tools, calls } = bindTools(request.tools ?? [])
  const provider = createOpenAICompatible({
    name,
    baseURL: settings.BaseUrl,
    fetch: boundedFetch,
    ...(settings.ApiKey ? { apiKey: settings.ApiKey } : {}),
  })
  const result = await generateText({
    model: provider(model),
    messages: alternating(request.messages),
    tools,
    stopWhen: stepCountIs(settings.MaxSteps),
    // The last step has to be the answer.
    prepareStep: ({ stepNumber }) => (stepNumber > 0 && stepNumber === settings.MaxSteps - 1 ? { toolChoice: 'none' } : {}),
    maxRetries: settings.Retries,
    abortSignal: signal,
    ...(request.system ? { system: request.system } : {}),
  })
  const { inputTokens, outputTokens } = result.totalUsage
  return {
    text: result.text,
    model: `${name}/${model}`,
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

interface CallFailure extends Error {
  statusCode?: number
  lastError?: unknown
}

/** What went wrong, without addresses or headers: the status and the endpoint's own words. */
const describeFailure = (error: unknown): string => {
  if (!(error instanceof Error)) return 'it failed without saying why'
  const { lastError, statusCode, message } = error as CallFailure
  if (lastError !== undefined) return describeFailure(lastError)
  return statusCode === undefined || statusCode === 200 ? message : `HTTP ${statusCode}: ${message}`
}
