import {
  field,
  hasUnprintable,
  isObject,
  isPrototypeKey,
  shown,
  type JsonObject,
  type ManifestIssues,
  type ManifestPath,
} from './manifestIssues.js'
import { looksLikeSecretName } from './secretNames.js'

/** One field of a channel's settings form. */
export interface ManifestSetting {
  name: string
  /** `secret`: kept in the vault, masked, handed to the plugin only at connect. */
  type: 'string' | 'secret'
  /** The label. The name, when the manifest gives none. */
  displayName: string
  /** A channel with a blank value here is refused before it connects. */
  required: boolean
  /** Pre-filled, and visible to every authenticated user: never a secret. */
  default?: string
}

const MAX_SETTINGS = 100
const MAX_NAME = 128
const MAX_DEFAULT = 8192

/** Reads `settings`. A malformed entry is left out with a warning; the manifest stands. */
export function readSettings(manifest: JsonObject, issues: ManifestIssues): ManifestSetting[] {
  const entries = field(manifest, 'settings')
  if (entries === undefined) return []
  if (!Array.isArray(entries)) {
    issues.warn(['settings'], `must be an array, not ${shown(entries)}: ignored`)
    return []
  }
  const settings = new Map<string, ManifestSetting>()
  for (const [index, entry] of (entries as unknown[]).entries()) {
    if (settings.size >= MAX_SETTINGS) {
      issues.warn(['settings', index], `only the first ${MAX_SETTINGS} settings are used`)
      break
    }
    const setting = readSetting(entry, ['settings', index], issues)
    if (setting === undefined) continue
    if (settings.has(setting.name)) issues.warn(['settings', index], `a setting named ${shown(setting.name)} already stands: skipped`)
    else settings.set(setting.name, setting)
  }
  return [...settings.values()]
}

function readSetting(entry: unknown, path: ManifestPath, issues: ManifestIssues): ManifestSetting | undefined {
  if (!isObject(entry)) {
    issues.warn(path, `must be an object such as {"name": "apiToken", "type": "secret"}, not ${shown(entry)}: skipped`)
    return undefined
  }
  const name = settingName(entry)
  if (name === undefined) {
    issues.warn(path, 'needs a "name", a string of at most 128 printable characters: skipped')
    return undefined
  }
  const label = readLabel(entry, path, issues)
  const type = readType(entry, name, path, issues)
  const value = readDefault(entry, path, issues)
  if (value !== undefined && value !== '' && type === 'secret') {
    issues.warn([...path, 'default'], 'is visible to every user, so it must not hold a secret: remove it')
  }
  return {
    name,
    type,
    displayName: label ?? name,
    required: readRequired(entry, path, issues),
    ...(value === undefined ? {} : { default: value }),
  }
}

/** `key` is the legacy alias of `name`. */
function settingName(entry: JsonObject): string | undefined {
  for (const candidate of [field(entry, 'name'), field(entry, 'key')]) {
    if (typeof candidate !== 'string') continue
    const name = candidate.trim()
    if (name !== '' && name.length <= MAX_NAME && !hasUnprintable(name) && !isPrototypeKey(name)) return name
  }
  return undefined
}

function readType(entry: JsonObject, name: string, path: ManifestPath, issues: ManifestIssues): 'string' | 'secret' {
  const type = field(entry, 'type')
  if (type === 'secret') return 'secret'
  if (type !== undefined && type !== 'string')
    issues.warn([...path, 'type'], `must be "string" or "secret", not ${shown(type)}: taken as "string"`)
  else if (looksLikeSecretName(name))
    issues.warn(
      path,
      `${shown(name)} sounds like a secret but has the type "string": it is stored and shown in clear. Write "type": "secret"`,
    )
  return 'string'
}

function readLabel(entry: JsonObject, path: ManifestPath, issues: ManifestIssues): string | undefined {
  const label = field(entry, 'displayName')
  if (label === undefined) return undefined
  if (typeof label === 'string') return label.trim() === '' ? undefined : label.trim()
  issues.warn([...path, 'displayName'], `must be a string, not ${shown(label)}: ignored`)
  return undefined
}

function readRequired(entry: JsonObject, path: ManifestPath, issues: ManifestIssues): boolean {
  const required = field(entry, 'required')
  if (required === undefined || typeof required === 'boolean') return required ?? false
  issues.warn([...path, 'required'], `must be true or false, not ${shown(required)}: taken as false`)
  return false
}

function readDefault(entry: JsonObject, path: ManifestPath, issues: ManifestIssues): string | undefined {
  const value = field(entry, 'default')
  if (value === undefined) return undefined
  const text = typeof value === 'number' || typeof value === 'boolean' ? String(value) : value
  if (typeof text !== 'string' || text.length > MAX_DEFAULT) {
    issues.warn([...path, 'default'], `must be a string of at most ${MAX_DEFAULT} characters, not ${shown(value)}: ignored`)
    return undefined
  }
  if (typeof value !== 'string') issues.warn([...path, 'default'], `must be a string, not ${text}: taken as "${text}"`)
  return text
}
