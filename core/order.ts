import type { Plugin } from './plugin.js'

/** The internal plugins cannot be started as listed. The message names the plugin and what is wrong with it. */
export class PluginOrderError extends Error {
  override readonly name = 'PluginOrderError'
}

/**
 * The plugins in the order that they start in; they stop in reverse. Each comes after everything that it needs, and
 * after whatever extends what it needs; where that leaves a choice, by id. The order given does not matter.
 * Throws `PluginOrderError` for an id or a service that two plugins claim, a missing service, and circles.
 */
export const dependencyOrder = (plugins: readonly Plugin[]): Plugin[] => {
  const providers = findProviders(plugins)
  const byId = [...plugins].sort((a, b) => (a.id < b.id ? -1 : 1))
  const before = (plugin: Plugin): Plugin[] =>
    Object.entries(plugin.needs ?? {}).flatMap(([name, need]) => {
      const provider = providers.get(need.id)
      if (!provider) throw missing(plugin, need.id)
      const isExtension = plugin.extends?.includes(name) ?? false
      return isExtension ? [provider] : [provider, ...byId.filter(other => extensionOf(other, need.id))]
    })
  const ordered = new Set<Plugin>()
  const visit = (plugin: Plugin, path: Plugin[]): void => {
    if (ordered.has(plugin)) return
    if (path.includes(plugin)) throw circle([...path.slice(path.indexOf(plugin)), plugin])
    for (const earlier of before(plugin)) visit(earlier, [...path, plugin])
    ordered.add(plugin)
  }
  for (const plugin of byId) visit(plugin, [])
  return [...ordered]
}

const extensionOf = ({ needs = {}, extends: extended = [] }: Plugin, serviceId: string): boolean =>
  extended.some(name => needs[name]?.id === serviceId)

const findProviders = (plugins: readonly Plugin[]): Map<string, Plugin> => {
  const ids = new Set<string>()
  const providers = new Map<string, Plugin>()
  for (const plugin of plugins) {
    if (ids.has(plugin.id)) throw new PluginOrderError(`Two internal plugins have the id "${plugin.id}": rename one of them`)
    ids.add(plugin.id)
    if (!plugin.provides) continue
    const other = providers.get(plugin.provides.id)
    if (other) throw new PluginOrderError(`The plugins "${other.id}" and "${plugin.id}" both provide the service "${plugin.provides.id}"`)
    providers.set(plugin.provides.id, plugin)
  }
  return providers
}

const missing = (plugin: Plugin, need: string): PluginOrderError =>
  new PluginOrderError(
    `The plugin "${plugin.id}" needs the service "${need}", which no plugin provides: add the one that does to plugins/index.ts`,
  )

const circle = (path: Plugin[]): PluginOrderError =>
  new PluginOrderError(
    `These plugins need each other (or what extends each other) in a circle: ${path.map(({ id }) => id).join(' -> ')}. Turn one of the needs into an event or an open set`,
  )
