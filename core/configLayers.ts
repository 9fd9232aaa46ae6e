import type { Setting } from './config.js'

/** One source of configuration: lower-case key to the value as written. */
export interface Layer {
  /** Shown in messages: `the environment variable Service__Port`. */
  describe(key: string): string
  /** Values are text that the setting has to parse. */
  readonly text: boolean
  readonly values: ReadonlyMap<string, { key: string; value: unknown }>
}

const ROOT = 'service:'

/** `{Service: {Plugins: {Enabled: true}}}` and `{"Service:Plugins:Enabled": true}` alike, as flat keys. */
export const flatten = (tree: Record<string, unknown>, prefix = ''): [string, unknown][] =>
  Object.entries(tree).flatMap(([name, value]) => {
    const key = prefix + name
    return isTree(value) ? flatten(value, `${key}:`) : [[key, value] as [string, unknown]]
  })

export const isTree = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)

const toMap = (entries: [string, unknown][]): Layer['values'] => new Map(entries.map(([key, value]) => [key.toLowerCase(), { key, value }]))

export const fileLayer = (tree: Record<string, unknown>, file: string): Layer => ({
  describe: () => `the configuration file ${file}`,
  text: false,
  values: toMap(flatten(tree)),
})

export const environmentLayer = (env: Record<string, string | undefined>): Layer => ({
  describe: key => `the environment variable ${variableName(env, key)}`,
  text: true,
  values: toMap(
    Object.entries(env)
      .filter((entry): entry is [string, string] => entry[1] !== undefined && entry[0].toLowerCase().startsWith('service__'))
      .map(([name, value]) => [name.replaceAll('__', ':'), value]),
  ),
})

export const commandLineLayer = (defaults: Record<string, string>): Layer => ({
  describe: key => `the command line's --default ${key}`,
  text: true,
  values: toMap(Object.entries(defaults)),
})

const variableName = (env: Record<string, string | undefined>, key: string): string =>
  Object.keys(env).find(name => name.replaceAll('__', ':').toLowerCase() === key.toLowerCase()) ?? key.replaceAll(':', '__')

/**
 * A configured value, or a file that the operator keeps, is wrong. The message names it, where it comes from, and what is
 * expected; at a start it is shown alone.
 */
export class ConfigError extends Error {
  override readonly name = 'ConfigError'
}

/** The setting's value: the last layer that has it wins; a section merges its keys over all layers. */
export const resolve = <T>(setting: Setting<T>, layers: readonly Layer[]): T => {
  const found = setting.section ? findSection(setting.key, layers) : findValue(setting, layers)
  if (!found) return setting.default
  const parsed = setting.schema.safeParse(found.value)
  if (parsed.success) return parsed.data
  const why = parsed.error.issues.map(({ path, message }) => [path.join(':'), message].filter(Boolean).join(': ')).join('; ')
  throw new ConfigError(`${setting.key} in ${found.source} is not valid: ${why}`)
}

interface Found {
  value: unknown
  source: string
}

const findValue = (setting: Setting<unknown>, layers: readonly Layer[]): Found | undefined => {
  const layer = layers.findLast(({ values }) => values.has(setting.key.toLowerCase()))
  const entry = layer?.values.get(setting.key.toLowerCase())
  if (!layer || !entry) return undefined
  return { value: layer.text ? setting.fromText(String(entry.value)) : entry.value, source: layer.describe(setting.key) }
}

const findSection = (key: string, layers: readonly Layer[]): Found | undefined => {
  const prefix = `${key.toLowerCase()}:`
  const tree: Record<string, unknown> = {}
  const sources = new Set<string>()
  for (const layer of layers) {
    for (const [lower, entry] of layer.values) {
      if (!lower.startsWith(prefix)) continue
      place(tree, entry.key.slice(prefix.length).split(':'), entry.value)
      sources.add(layer.describe(entry.key))
    }
  }
  return sources.size > 0 ? { value: tree, source: [...sources].join(', ') } : undefined
}

/** Puts a value at a path of names, matching existing names without regard to case. */
export const place = (tree: Record<string, unknown>, path: string[], value: unknown): void => {
  const [name = '', ...rest] = path
  const existing = Object.keys(tree).find(other => other.toLowerCase() === name.toLowerCase()) ?? name
  if (existing === '__proto__') return
  if (rest.length === 0) {
    tree[existing] = value
    return
  }
  const child = tree[existing]
  const branch = isTree(child) ? child : {}
  tree[existing] = branch
  place(branch, rest, value)
}

/** Keys below `Service:` that no setting declares: most likely misspelt. */
export const unknownKeys = (settings: readonly Setting<unknown>[], layers: readonly Layer[]): string[] => {
  const known = new Set(settings.filter(({ section }) => !section).map(({ key }) => key.toLowerCase()))
  const sections = settings.filter(({ section }) => section).map(({ key }) => `${key.toLowerCase()}:`)
  return layers.flatMap(layer =>
    [...layer.values]
      .filter(([lower]) => lower.startsWith(ROOT) && !known.has(lower) && !sections.some(prefix => lower.startsWith(prefix)))
      .map(([, { key }]) => `${key} in ${layer.describe(key)}`),
  )
}
