import { setTimeout as sleep } from 'node:timers/promises'
import { compare } from 'semver'
import { upstreamUnavailable, type GatewayError } from '../../core/errors.js'
import { redact } from '../../core/redaction.js'
import type { ProviderDescription, ProviderSource, Step, SteppedProvider, StepRequest } from '../models/contract.js'
import type { PluginHost, PluginProvider } from '../plugins/contract.js'
import { readModels } from './answers.js'
import type { Generations } from './generations.js'
import type { PluginSettings } from './pluginSettings.js'
import { afterFailure, type Failures } from './retry.js'

/** How long an answer waits for a plugin that is starting, reloading or backing off. */
const MAX_WAIT_MS = 60_000
const LIST_TIMEOUT_MS = 3_000
const MAX_REASON_LENGTH = 300
const SWITCHED_OFF = 'Service:Plugins:Experimental is off'

interface ModelPluginNeeds {
  host: PluginHost
  generations: Generations
  settings: PluginSettings
  experimental: () => boolean
  timeoutMs: () => number
}

/** Plugins of the interface ModelProvider, as providers: by their id, and by their `providerType`. */
export class ModelPlugins implements ProviderSource {
  readonly #needs: ModelPluginNeeds
  readonly #lists = new Map<string, Promise<string[]>>()
  /** What is under way, to be ended. */
  readonly #steps = new Set<AbortController>()
  #discovered = false

  constructor(needs: ModelPluginNeeds) {
    this.#needs = needs
    void needs.host.discovered.then(() => {
      this.#discovered = true
    })
  }

  find(name: string): SteppedProvider | undefined {
    // Before the first look at the plugin directories any name may turn out to be one: an answer waits for that.
    if (!this.#needs.experimental() || (this.#discovered && !this.#named(name))) return undefined
    return this.#provider(name)
  }

  list(isTaken: (name: string) => boolean): SteppedProvider[] {
    return this.#plugins().map(({ pluginId, providerType }) => {
      const isUsable = providerType !== undefined && /^[^/\s]+$/.test(providerType) && !isTaken(providerType)
      return this.#provider(isUsable && this.#named(providerType)?.pluginId === pluginId ? providerType : pluginId)
    })
  }

  /** Ends what is under way: the answers fail. */
  switchOff(): void {
    const reason = upstreamUnavailable(`${SWITCHED_OFF}: plugins are no model providers any more`)
    for (const step of this.#steps) step.abort(reason)
    this.#lists.clear()
  }

  /** The plugin has changed, or its settings: what it said of itself may not be true any more. */
  forget(pluginId?: string): void {
    if (pluginId === undefined) this.#lists.clear()
    else this.#lists.delete(pluginId)
  }

  #provider(name: string): SteppedProvider {
    return {
      name,
      timeoutMs: this.#needs.timeoutMs,
      check: () => {
        const plugin = this.#named(name)
        const reason = plugin && this.#whyUnusable(plugin)
        if (reason !== undefined) throw unusable(name, reason)
      },
      step: async (request, signal) => {
        const step = new AbortController()
        this.#steps.add(step)
        try {
          return await this.#step(name, request, AbortSignal.any([signal, step.signal]))
        } finally {
          this.#steps.delete(step)
        }
      },
      describe: () => this.#describe(name),
    }
  }

  /** Asks until there is an answer, of whichever process of the plugin. Tools ran before: nothing is done twice. */
  async #step(name: string, request: StepRequest, signal: AbortSignal): Promise<Step> {
    for (let failures: Failures = { crashes: 0, others: 0 }; ;) {
      const plugin = await this.#ready(name, signal)
      try {
        return await this.#needs.generations.run(plugin.pluginId, { ...request, settings: this.#needs.settings.of(plugin) }, signal)
      } catch (error) {
        signal.throwIfAborted()
        const next = afterFailure(error, failures)
        if (!next) throw error
        failures = next.failures
        await sleep(next.delayMs, undefined, { signal }).catch(() => signal.throwIfAborted())
      }
    }
  }

  /** The plugin once its process serves. */
  async #ready(name: string, signal: AbortSignal): Promise<PluginProvider> {
    const { host } = this.#needs
    await untilSettled(host.discovered, signal)
    const deadline = AbortSignal.timeout(MAX_WAIT_MS)
    for (;;) {
      signal.throwIfAborted()
      const plugin = this.#named(name)
      const reason = plugin ? this.#whyUnusable(plugin) : this.#needs.experimental() ? 'there is no such plugin any more' : SWITCHED_OFF
      if (reason !== undefined) throw unusable(name, reason)
      if (plugin?.state === 'ready') return plugin
      if (deadline.aborted) throw unusable(name, `its plugin did not run within ${MAX_WAIT_MS / 1000} s (${plugin?.reason ?? ''})`)
      await nextChange(host, AbortSignal.any([signal, deadline]))
    }
  }

  #whyUnusable(plugin: PluginProvider): string | undefined {
    if (plugin.state === 'off') return `the plugin ${plugin.pluginId} does not run: ${plugin.reason ?? ''}`
    return this.#needs.settings.whyIncomplete(plugin)
  }

  #plugins(): PluginProvider[] {
    if (!this.#needs.experimental()) return []
    return this.#needs.host.providers().filter(({ pluginInterface }) => pluginInterface === 'ModelProvider')
  }

  /** An id comes before a `providerType`; of two with the same type the highest version answers, then the first id. */
  #named(name: string): PluginProvider | undefined {
    const plugins = this.#plugins()
    const wanted = name.toLowerCase()
    const byType = plugins
      .filter(({ providerType }) => providerType?.toLowerCase() === wanted)
      .sort((a, b) => compare(b.version, a.version) || (a.pluginId < b.pluginId ? -1 : 1))
    return plugins.find(({ pluginId }) => pluginId.toLowerCase() === wanted) ?? byType[0]
  }

  async #describe(name: string): Promise<ProviderDescription> {
    const plugin = this.#named(name)
    if (!plugin) return { source: 'plugin', models: [], ready: false, reason: 'its plugin is gone' }
    const known = { source: 'plugin' as const, pluginId: plugin.pluginId }
    const reason = this.#whyUnusable(plugin) ?? (plugin.state === 'ready' ? undefined : plugin.reason)
    if (reason !== undefined) return { ...known, models: [], ready: false, reason: shown(reason) }
    try {
      return { ...known, models: await this.#models(plugin), ready: true }
    } catch (error) {
      return { ...known, models: [], ready: true, reason: shown(`its models are not known: ${(error as Error).message}`) }
    }
  }

  /** Asked once of each process. */
  async #models(plugin: PluginProvider): Promise<string[]> {
    const { host, settings } = this.#needs
    const { pluginId } = plugin
    let models = this.#lists.get(pluginId)
    if (!models) {
      const options = { timeoutMs: LIST_TIMEOUT_MS, hardTimeoutMs: LIST_TIMEOUT_MS }
      const asked = host.request(pluginId, 'model.list', { settings: settings.of(plugin) }, options).then(readModels)
      models = asked
      this.#lists.set(pluginId, asked)
      asked.catch(() => {
        if (this.#lists.get(pluginId) === asked) this.#lists.delete(pluginId)
      })
    }
    return models
  }
}

const unusable = (name: string, reason: string): GatewayError =>
  upstreamUnavailable(`The model provider "${name}" cannot answer: ${shown(reason)}`)

const shown = (reason: string): string => redact(reason).slice(0, MAX_REASON_LENGTH)

const nextChange = (host: PluginHost, signal: AbortSignal): Promise<void> => {
  let undo = (): void => undefined
  const changed = new Promise<void>(resolve => {
    undo = host.onChange(() => resolve())
  })
  return untilSettled(changed, signal).finally(() => undo())
}

/** Resolves when `work` does, or when the signal aborts: whoever waits looks at it next. */
const untilSettled = async (work: Promise<void>, signal: AbortSignal): Promise<void> => {
  if (signal.aborted) return
  let stop = (): void => undefined
  const aborted = new Promise<void>(resolve => {
    stop = resolve
    signal.addEventListener('abort', stop, { once: true })
  })
  await Promise.race([work, aborted])
  signal.removeEventListener('abort', stop)
}
