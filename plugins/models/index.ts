import { registerSecret } from '../../core/redaction.js'
import { definePlugin } from '../../core/plugin.js'
import { models } from './contract.js'
import { openAiCompatible } from './openAiCompatible.js'
import { modelRoutes } from './routes.js'
import { defaultModelOf, ModelService } from './service.js'
import { modelSettings, type ProviderSettings } from './settings.js'

export default definePlugin({
  id: 'models',
  tags: { models: 'The model providers that agents can be answered by.' },
  provides: models,
  settings: modelSettings,
  setup: ({ settings, log, routes, onStop }) => {
    const service = new ModelService(() => defaultModelOf(settings.default.get(), settings.providers.get()), log)
    let undo: (() => void)[] = []
    const unregister = (): void => {
      for (const step of undo) step()
    }
    const apply = (providers: Record<string, ProviderSettings>): void => {
      unregister()
      undo = Object.entries(providers).flatMap(([name, provider]) => [
        registerSecret(provider.ApiKey ?? ''),
        service.register(openAiCompatible(name, provider, log)),
      ])
    }
    apply(settings.providers.get())
    settings.providers.onChange(apply)
    onStop(unregister)
    routes(modelRoutes(service))
    return service
  },
})
