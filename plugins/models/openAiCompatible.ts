import { upstreamUnavailable } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { boundedFetch } from './boundedFetch.js'
import type { Generated, GenerateRequest, ModelProvider } from './contract.js'
import { converse } from './converse.js'
import { failed } from './failed.js'
import { Patience } from './patience.js'
import type { ProviderSettings } from './settings.js'
import { unlessAborted } from './unlessAborted.js'

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
    const patience = new Patience(settings.TimeoutMs)
    const signal = AbortSignal.any([request.signal, patience.signal])
    try {
      return await unlessAborted(signal, ask(name, settings, model || (settings.Model ?? ''), patience.with(request), signal, log))
    } catch (error) {
      request.signal.throwIfAborted()
      const reason = patience.signal.aborted ? `no answer within ${settings.TimeoutMs / 1000} s` : describeFailure(error)
      throw failed(name, reason)
    } finally {
      patience.end()
    }
  },
  describe: () => ({
    source: 'configuration',
    models: settings.Model === undefined ? [] : [settings.Model],
    ready: true,
    ...(settings.Model === undefined ? { reason: 'It has no default model: name one as provider/model' } : {}),
  }),
})

const ask = async (
  name: string,
  settings: ProviderSettings,
  model: string,
  request: GenerateRequest,
  signal: AbortSignal,
  log: Log,
): Promise<Generated> => {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible')
  const provider = createOpenAICompatible({
    name,
    baseURL: settings.BaseUrl,
    fetch: boundedFetch,
    ...(settings.ApiKey ? { apiKey: settings.ApiKey } : {}),
  })
  const generated = await converse(provider(model), { name, maxSteps: settings.MaxSteps, retries: settings.Retries, log }, request, signal)
  return { ...generated, model: `${name}/${model}` }
}

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
