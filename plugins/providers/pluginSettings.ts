import { registerSecret } from '../../core/redaction.js'
import { looksLikeSecretName } from '../../sdk/secretNames.js'
import type { PluginProvider } from '../plugins/contract.js'
import type { SettingValues } from './settings.js'

/** What the configuration says for the settings that manifests declare. Secrets are redacted from the moment they are first used. */
export class PluginSettings {
  readonly #values: () => SettingValues
  readonly #secrets = new Map<string, () => void>()

  constructor(values: () => SettingValues) {
    this.#values = values
  }

  /** Declared settings that have a value; nothing that the manifest does not declare. */
  of({ pluginId, settings }: PluginProvider): Record<string, string> {
    const configured = Object.entries(this.#values()).find(([id]) => id.toLowerCase() === pluginId.toLowerCase())?.[1] ?? {}
    const found: Record<string, string> = {}
    for (const { name, type, default: preset } of settings) {
      const value = isBlank(configured[name]) ? preset : configured[name]
      if (value === undefined) continue
      found[name] = value
      if (isSecret({ name, type }) && !this.#secrets.has(value)) this.#secrets.set(value, registerSecret(value))
    }
    return found
  }

  /** Those that are no secrets. */
  openOf(plugin: PluginProvider): Record<string, string> {
    const secret = new Set(plugin.settings.filter(isSecret).map(({ name }) => name))
    return Object.fromEntries(Object.entries(this.of(plugin)).filter(([name]) => !secret.has(name)))
  }

  /** What the administrator has to do before the plugin can be used, if anything. */
  whyIncomplete(plugin: PluginProvider): string | undefined {
    const values = this.of(plugin)
    const missing = plugin.settings.find(({ name, required }) => required && isBlank(values[name]))
    return missing && `it needs the setting "${missing.name}": give it as Service:Plugins:Settings:${plugin.pluginId}:${missing.name}`
  }

  /** The configuration has changed, or is not needed any more. */
  forget(): void {
    for (const undo of this.#secrets.values()) undo()
    this.#secrets.clear()
  }
}

const isSecret = ({ name, type }: Pick<PluginProvider['settings'][number], 'name' | 'type'>): boolean =>
  type === 'secret' || looksLikeSecretName(name)

const isBlank = (value: string | undefined): boolean => value === undefined || value.trim() === ''
