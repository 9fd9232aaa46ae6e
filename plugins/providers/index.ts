import { definePlugin } from '../../core/plugin.js'
import { memory } from '../memory/contract.js'
import { models } from '../models/contract.js'
import { pluginHost } from '../plugins/contract.js'
import { currentEmbedder } from './embedders.js'
import { Generations } from './generations.js'
import { ModelPlugins } from './modelPlugins.js'
import { PluginSettings } from './pluginSettings.js'
import { providerSettings } from './settings.js'

/** Plugins as providers of models and embeddings, while `Service:Plugins:Experimental` is on. */
export default definePlugin({
  id: 'providers',
  needs: { models, memory, host: pluginHost },
  extends: ['models', 'memory'],
  settings: providerSettings,
  setup: ({ needs: { models, memory, host }, settings: { experimental, values, silenceMs, timeoutMs, embedder }, onStop }) => {
    const settings = new PluginSettings(() => values.get())
    const generations = new Generations(host, () => silenceMs.get())
    const common = { host, settings, experimental: () => experimental.get() }
    const modelPlugins = new ModelPlugins({ ...common, generations, timeoutMs: () => timeoutMs.get() })
    onStop(() => settings.forget())
    onStop(host.onNotification('model.delta', generations.hear))
    onStop(host.onChange(pluginId => modelPlugins.forget(pluginId)))
    onStop(models.extend(modelPlugins))
    onStop(memory.embedBy(() => currentEmbedder({ ...common, wanted: () => embedder.get() })))
    experimental.onChange(isOn => {
      if (!isOn) modelPlugins.switchOff()
    })
    values.onChange(() => {
      settings.forget()
      modelPlugins.forget()
    })
  },
})
