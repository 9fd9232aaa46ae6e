import { definePlugin } from '../../core/plugin.js'
import { models } from '../models/contract.js'
import { pluginHost } from '../plugins/contract.js'
import { Generations } from './generations.js'
import { ModelPlugins } from './modelPlugins.js'
import { PluginSettings } from './pluginSettings.js'
import { providerSettings } from './settings.js'

/** Plugins as providers of models and embeddings, while `Service:Plugins:Experimental` is on. */
export default definePlugin({
  id: 'providers',
  needs: { models, host: pluginHost },
  settings: providerSettings,
  setup: ({ needs: { models, host }, settings: { experimental, values, silenceMs, timeoutMs }, onStop }) => {
    const settings = new PluginSettings(() => values.get())
    const generations = new Generations(host, () => silenceMs.get())
    const modelPlugins = new ModelPlugins({
      host,
      generations,
      settings,
      experimental: () => experimental.get(),
      timeoutMs: () => timeoutMs.get(),
    })
    onStop(() => settings.forget())
    onStop(host.onNotification('model.delta', generations.hear))
    onStop(host.onChange(pluginId => modelPlugins.forget(pluginId)))
    onStop(models.extend(modelPlugins))
    experimental.onChange(isOn => {
      if (!isOn) modelPlugins.switchOff()
    })
    values.onChange(() => {
      settings.forget()
      modelPlugins.forget()
    })
  },
})
