import { upstreamUnavailable } from '../../core/errors.js'
import type { Log } from '../../core/log.js'
import { OFFLINE, type Generated, type GenerateRequest, type ModelProvider, type Models, type ProviderSource } from './contract.js'
import { stepped } from './stepped.js'
import { unlessAborted } from './unlessAborted.js'

interface Choice {
  provider: ModelProvider
  model: string
}

/** The open set of providers, and the choice among them. */
export class ModelService implements Models {
  readonly #providers = new Map<string, ModelProvider>()
  readonly #sources = new Set<ProviderSource>()
  readonly #defaultModel: () => string
  readonly #log: Log

  /** `defaultModel` names what answers when a request names nothing. */
  constructor(defaultModel: () => string, log: Log) {
    this.#defaultModel = defaultModel
    this.#log = log
  }

  /** What answers when a request names nothing, as `provider/model` or `provider`. */
  get defaultModel(): string {
    return this.#defaultModel()
  }

  /** Every provider, under a name that it answers to. */
  get providers(): ModelProvider[] {
    const isTaken = (name: string): boolean => this.#providers.has(name.toLowerCase())
    const further = [...this.#sources].flatMap(source => source.list(isTaken)).filter(({ name }) => !isTaken(name))
    return [...this.#providers.values(), ...further.map(provider => stepped(provider, this.#log))]
  }

  register(provider: ModelProvider): () => void {
    const key = provider.name.toLowerCase()
    if (this.#providers.has(key)) throw new Error(`Two model providers are named "${provider.name}"`)
    this.#providers.set(key, provider)
    return () => {
      if (this.#providers.get(key) === provider) this.#providers.delete(key)
    }
  }

  extend(source: ProviderSource): () => void {
    this.#sources.add(source)
    return () => this.#sources.delete(source)
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
    const provider = this.#find(providerName)
    if (!provider) {
      const where = wanted === undefined ? 'Service:Models:Default' : 'The agent'
      throw upstreamUnavailable(
        `${where} names the model "${name}", but there is no provider "${providerName}": write provider/model, with a provider configured under Service:Models:Providers`,
      )
    }
    provider.check(model)
    return { provider, model }
  }

  #find(name: string): ModelProvider | undefined {
    const registered = this.#providers.get(name.toLowerCase())
    if (registered) return registered
    for (const source of this.#sources) {
      const found = source.find(name)
      if (found) return stepped(found, this.#log)
    }
    return undefined
  }
}

/** What answers by default: what the setting says, else the first provider with a model of its own, else `offline`. */
export const defaultModelOf = (configured: string, providers: Record<string, { Model?: string | undefined }>): string => {
  if (configured !== '') return configured
  const names = Object.keys(providers)
  // Providers without a model: `check` of the first says what is missing, instead of a silent fallback.
  return names.find(name => providers[name]?.Model !== undefined) ?? names[0] ?? OFFLINE
}
