import { readFileSync } from 'node:fs'
import { resolve as resolvePath } from 'node:path'
import { isDeepStrictEqual } from 'node:util'
import { z } from 'zod'
import {
  commandLineLayer,
  ConfigError,
  environmentLayer,
  fileLayer,
  isTree,
  place,
  resolve,
  unknownKeys,
  type Layer,
} from './configLayers.js'
import { conflict } from './errors.js'
import { writeFileAtomically } from './files.js'
import { registerSecret } from './redaction.js'

/**
 * A typed configuration key, `Service:Area:Name`. Layers, later over earlier: defaults, `--default KEY=VALUE` of the
 * command line, the JSON file, the environment (`Service__Area__Name`).
 */
export interface Setting<T> {
  readonly key: string
  readonly schema: z.ZodType<T>
  readonly default: T
  /** Takes effect without a restart. */
  readonly hot: boolean
  /** Turns text of the environment or the command line into a value for the schema. */
  readonly fromText: (text: string) => unknown
  /** The value is a secret: redacted everywhere. */
  readonly secret: boolean
  /** A subtree of keys rather than one key. */
  readonly section: boolean
}

interface SettingOptions<T> {
  default: T
  hot?: boolean
  secret?: boolean
}

const declare = <T>(
  key: string,
  schema: z.ZodType<T>,
  fromText: (text: string) => unknown,
  { default: fallback, hot = false, secret = false }: SettingOptions<T>,
  section = false,
): Setting<T> => ({ key, schema, default: fallback, hot, fromText, secret, section })

const textToBoolean = (text: string): unknown => {
  const lower = text.trim().toLowerCase()
  if (['true', '1', 'yes', 'on'].includes(lower)) return true
  return ['false', '0', 'no', 'off', ''].includes(lower) ? false : text
}

const MAX_DURATION_SECONDS = 100 * 365 * 86_400
const SECONDS = { s: 1, m: 60, h: 3600, d: 86_400 }

const durationInSeconds = (value: unknown): unknown => {
  const match = typeof value === 'string' ? /^(\d+(?:\.\d+)?)([smhd]?)$/.exec(value.trim().toLowerCase()) : null
  return match ? Number(match[1]) * SECONDS[(match[2] || 's') as keyof typeof SECONDS] : value
}

/** Declares settings: `setting.boolean('Service:Plugins:Enabled', { default: false, hot: true })`. */
export const setting = {
  boolean: (key: string, options: SettingOptions<boolean>): Setting<boolean> => declare(key, z.boolean(), textToBoolean, options),
  string: (key: string, options: SettingOptions<string>): Setting<string> => declare(key, z.string(), text => text, options),
  /** A number, by default not negative. */
  number: (key: string, options: SettingOptions<number> & { min?: number; max?: number; integer?: boolean }): Setting<number> => {
    const { min = 0, max = Number.MAX_SAFE_INTEGER, integer = false } = options
    const number = integer ? z.int() : z.number()
    return declare(key, number.min(min).max(max), text => (text.trim() === '' ? text : Number(text)), options)
  },
  /** A length of time, in seconds: a number, or text such as `45s`, `90m`, `12h` or `30d`. */
  duration: (key: string, options: SettingOptions<number> & { min?: number; max?: number }): Setting<number> => {
    const { min = 0, max = MAX_DURATION_SECONDS } = options
    const seconds = z.preprocess(
      durationInSeconds,
      z.number({ error: 'expected seconds, or a number with s, m, h or d' }).min(min).max(max),
    )
    return declare(key, seconds as unknown as z.ZodType<number>, text => text, options)
  },
  /** Comma-separated in the environment. */
  list: (key: string, options: SettingOptions<string[]>): Setting<string[]> =>
    declare(
      key,
      z.array(z.string()),
      text =>
        text
          .split(',')
          .map(part => part.trim())
          .filter(Boolean),
      options,
    ),
  choice: <const V extends readonly [string, ...string[]]>(
    key: string,
    values: V,
    options: SettingOptions<V[number]>,
  ): Setting<V[number]> => declare<V[number]>(key, z.enum(values), text => text, options),
  /** Every key below `key`, as one object. */
  section: <T>(key: string, schema: z.ZodType<T>, options: SettingOptions<T>): Setting<T> =>
    declare(key, schema, text => JSON.parse(text) as unknown, options, true),
}

/** A setting bound to the running configuration. */
export interface SettingValue<T> {
  readonly key: string
  get(): T
  /** Writes the configuration file, atomically. Rejects with `conflict` naming the variable when the environment pins the key. */
  set(value: T): Promise<void>
  /** The environment variable that pins the key, described; `undefined` when `set` may change it. */
  pinnedBy(): string | undefined
  /** Called after each change of a hot setting, with the new value. Returns the undo; a plugin's are undone at its stop. */
  onChange(handler: (value: T) => void): () => void
}

export type SettingValues<S> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? SettingValue<T> : never }

export interface ConfigSources {
  /** The JSON file; need not exist. */
  file: string
  /** The lowest layer: `--default KEY=VALUE`. */
  defaults?: Record<string, string>
  env?: Record<string, string | undefined>
}

/** The running configuration: layers over each other, hot keys, one file that is written. */
export class Config {
  readonly file: string
  readonly #commandLine: Layer
  readonly #environment: Layer
  #file: Layer
  readonly #bound = new Map<string, Bound>()
  #writing: Promise<void> = Promise.resolve()

  /** Throws `ConfigError` when the file is there but cannot be used. */
  constructor({ file, defaults = {}, env = {} }: ConfigSources) {
    this.file = resolvePath(file)
    this.#commandLine = commandLineLayer(defaults)
    this.#environment = environmentLayer(env)
    this.#file = fileLayer(readTree(this.file), this.file)
  }

  /** Binds a setting; throws `ConfigError` when its configured value is not valid. The same key may be bound twice. */
  bind<T>(setting: Setting<T>): SettingValue<T> {
    let bound = this.#bound.get(setting.key) as Bound<T> | undefined
    if (!bound) {
      bound = { setting, value: resolve(setting, this.#layers()), handlers: new Set() }
      this.#bound.set(setting.key, bound as unknown as Bound)
      if (setting.secret && typeof bound.value === 'string') registerSecret(bound.value)
    }
    const { handlers } = bound
    const current = bound
    return {
      key: setting.key,
      get: () => current.value,
      set: value => this.#set(setting, value),
      pinnedBy: () => this.#pinnedBy(setting),
      onChange: handler => {
        handlers.add(handler)
        return () => handlers.delete(handler)
      },
    }
  }

  /** Configured keys that nothing declares, each with where it stands. */
  unknownKeys(): string[] {
    return unknownKeys(
      [...this.#bound.values()].map(({ setting }) => setting),
      this.#layers(),
    )
  }

  /**
   * Reads the file again. Hot settings take their new values, all or none: with a bad file or a bad value the last
   * good ones stay, and the thrown `ConfigError` says what is wrong. Returns changed keys that need a restart.
   */
  reload(): string[] {
    const file = fileLayer(readTree(this.file), this.file)
    const layers = [this.#commandLine, file, this.#environment]
    const changed = [...this.#bound.values()]
      .map(bound => ({ bound, value: resolve(bound.setting, layers) }))
      .filter(({ bound, value }) => !isDeepStrictEqual(bound.value, value))
    this.#file = file
    for (const { bound, value } of changed.filter(({ bound }) => bound.setting.hot)) {
      bound.value = value
      for (const handler of [...bound.handlers]) handler(value)
    }
    return changed.filter(({ bound }) => !bound.setting.hot).map(({ bound }) => bound.setting.key)
  }

  #layers(): Layer[] {
    return [this.#commandLine, this.#file, this.#environment]
  }

  #pinnedBy(setting: Setting<unknown>): string | undefined {
    return this.#environment.values.has(setting.key.toLowerCase()) ? this.#environment.describe(setting.key) : undefined
  }

  async #set<T>(setting: Setting<T>, value: T): Promise<void> {
    const pin = this.#pinnedBy(setting)
    if (pin) throw conflict(`${setting.key} is pinned by ${pin}: change it there`, { key: setting.key })
    const checked = setting.schema.parse(value)
    const write = this.#writing.then(async () => {
      const written = Object.entries(readTree(this.file)).filter(([name]) => name.toLowerCase() !== setting.key.toLowerCase())
      const tree = Object.fromEntries(written)
      place(tree, setting.key.split(':'), checked)
      await writeFileAtomically(this.file, `${JSON.stringify(tree, null, 2)}\n`)
      this.reload()
    })
    this.#writing = write.catch(() => undefined)
    await write
  }
}

interface Bound<T = unknown> {
  setting: Setting<T>
  value: T
  handlers: Set<(value: T) => void>
}

const readTree = (file: string): Record<string, unknown> => {
  let text: string
  try {
    text = readFileSync(file, 'utf8')
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {}
    throw new ConfigError(`The configuration file ${file} cannot be read: ${(error as Error).message}`)
  }
  try {
    const tree = JSON.parse(text) as unknown
    if (isTree(tree)) return tree
  } catch (error) {
    throw new ConfigError(`The configuration file ${file} is not valid JSON: ${(error as Error).message}`)
  }
  throw new ConfigError(`The configuration file ${file} must hold a JSON object`)
}
