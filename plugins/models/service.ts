import { upstreamUnavailable } from '../../core/errors.js'
import { OFFLINE, type Generated, type GenerateRequest, type ModelProvider, type Models } from './contract.js'
import { unlessAborted } from './unlessAborted.js'

interface Choice {
  provider: ModelProvider
  model: string
}

/** The open set of providers, and the choice among them. */
export class ModelService implements Models {
  readonly #providers = new Map<string, ModelProvider>()
  readonly #defaultModel: () => string

  /** `defaultModel` names what answers when a request names nothing. */
  constructor(defaultModel: () => string) {
    this.#defaultModel = defaultModel
  }

  register(provider: ModelProvider): () => void {
    const key = provider.name.toLowerCase()
    if (this.#providers.has(key)) throw new Error(`Two model providers are named "${provider.name}"`)
    this.#providers.set(key, provider)
    return () => {
      if (this.#providers.get(key) === provider) this.#providers.delete(key)
    }
  }

  check(model?: string): void {
    this.#choose(model)
  }

  async generate(request: GenerateRequest): Promise<Generated> {
    request.signal.throwIfAborted()
    const { provider, model } = this.#choose(request.model)
    const generated = await unlessAborted(request.signal, provider.generate(model, request))
    if (generated.text.trim() === '')
      throw upstreamUnavailable(`The model ${generated.model} gave an empty answer: try again, or use another model`)
    return generated
  }

  #choose(wanted: string | undefined): Choice {
    const name = wanted ?? this.#defaultModel()
    const slash = name.indexOf('/')
    const providerName = slash < 0 ? name : name.slice(0, slash)
    const model = slash < 0 ? '' : name.slice(slash + 1)
    const provider = this.#providers.get(providerName.toLowerCase())
    if (!provider) {
      const where = wanted === undefined ? 'Service:Models:Default' : 'The agent'
      throw upstreamUnavailable(
        `${where} names the model "${name}", but there is no provider "${providerName}": write provider/model, with a provider configured under Service:Models:Providers`,
      )
    }
    provider.check(model)
    return { provider, model }
  }
}

/** What answers by default: what the setting says, else the first provider with a model of its own, else `offline`. */
export const defaultModelOf = (configured: string, providers: Record<string, { Model?: string | undefined }>): string => {
  if (configured !== '') return configured
  const names = Object.keys(providers)
  // Providers without a model: `check` of the first says what is missing, instead of a silent fallback.
  return names.find(name => providers[name]?.Model !== undefined) ?? names[0] ?? OFFLINE
}
