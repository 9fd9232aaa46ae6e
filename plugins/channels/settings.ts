import type { Issue } from '../../core/errors.js'
import { MASK } from '../../core/redaction.js'
import { looksLikeSecretName } from '../../sdk/secretNames.js'
import type { SettingEntry } from './rows.js'
import type { KnownType } from './types.js'

export const MAX_SETTINGS = 100
export const MAX_VALUE_LENGTH = 16 * 1024
const UNDECLARED_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,99}$/

/** Settings as stored: secrets by name only, their values are in the vault. */
export interface StoredSettings {
  settings: SettingEntry[]
  secrets: string[]
}

export interface SettingsChange {
  stored: StoredSettings
  /** Secrets to put into the vault, and to take out. */
  put: SettingEntry[]
  remove: string[]
  issues: Issue[]
}

const isBlank = (value: string | undefined | null): boolean => value === undefined || value === null || value.trim() === ''

/**
 * Merges settings sent by a client. `null` and blank remove, the mask keeps what is stored. With the manifest at hand
 * only declared settings are kept, as any unknown field of a body, and others can only be removed; without it, or with one from before, the others
 * are kept too, those whose names look like a secret as secrets. What is a secret once stays one.
 */
export const changeSettings = (before: StoredSettings, sent: Record<string, string | null>, type: KnownType): SettingsChange => {
  const plain = new Map(before.settings.map(({ name, value }) => [name, value]))
  const secrets = new Set(before.secrets)
  const put: SettingEntry[] = []
  const remove: string[] = []
  const issues: Issue[] = []
  for (const [name, value] of Object.entries(sent)) {
    const declared = type.settings.find(setting => setting.name === name)
    const isStored = plain.has(name) || secrets.has(name)
    if (value === MASK || (!declared && type.knowledge === 'declared' && !(isStored && isBlank(value)))) continue
    if (!declared && !UNDECLARED_NAME.test(name))
      issues.push({ path: `settings.${name.slice(0, 100)}`, message: 'this cannot be the name of a setting' })
    else if (value === null || isBlank(value)) {
      plain.delete(name)
      if (secrets.delete(name)) remove.push(name)
    } else if (secrets.has(name) || isSecret(name, type)) {
      plain.delete(name)
      secrets.add(name)
      put.push({ name, value })
    } else plain.set(name, value)
  }
  for (const { name, value } of exposedSecrets(before, type)) {
    if (!plain.delete(name)) continue
    secrets.add(name)
    put.push({ name, value })
  }
  if (plain.size + secrets.size > MAX_SETTINGS) issues.push({ path: 'settings', message: `at most ${MAX_SETTINGS} settings` })
  const stored = { settings: [...plain].map(([name, value]) => ({ name, value })), secrets: [...secrets] }
  return { stored, put, remove, issues: [...issues, ...missingSettings(namesOf(stored), type)] }
}

/** By the manifest; where it says nothing, by the name. */
export const isSecret = (name: string, type: KnownType): boolean => {
  const declared = type.settings.find(setting => setting.name === name)
  return declared ? declared.type === 'secret' : looksLikeSecretName(name)
}

const namesOf = ({ settings, secrets }: StoredSettings): Set<string> =>
  new Set([...settings.filter(({ value }) => !isBlank(value)).map(({ name }) => name), ...secrets])

/** Required settings that have neither a value nor a default. */
export const missingSettings = (present: ReadonlySet<string>, type: KnownType): Issue[] =>
  type.settings
    .filter(setting => setting.required && !present.has(setting.name) && isBlank(setting.default))
    .map(({ name, displayName }) => ({
      path: `settings.${name}`,
      message: `the required setting "${name}" (${displayName}) is missing or blank`,
    }))

/** What clients are shown: values in force, secrets masked. */
export const shownSettings = ({ settings, secrets }: StoredSettings, type: KnownType): Record<string, string> => {
  const shown = new Map<string, string>()
  for (const setting of type.settings)
    if (setting.default !== undefined && !isBlank(setting.default)) shown.set(setting.name, setting.default)
  for (const { name, value } of settings) shown.set(name, value)
  for (const name of shown.keys()) if (isSecret(name, type)) shown.set(name, MASK)
  for (const name of secrets) shown.set(name, MASK)
  return Object.fromEntries(shown)
}

/** Settings stored in plain that the manifest, now known, declares secret. */
export const exposedSecrets = ({ settings }: StoredSettings, type: KnownType): SettingEntry[] =>
  settings.filter(({ name }) => type.settings.some(setting => setting.name === name && setting.type === 'secret'))
