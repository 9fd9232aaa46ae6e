import { z } from 'zod'

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

/** Declares settings: `setting.boolean('Service:Plugins:Enabled', { default: false, hot: true })`. */
export const setting = {
  boolean: (key: string, options: SettingOptions<boolean>): Setting<boolean> => declare(key, z.boolean(), textToBoolean, options),
  string: (key: string, options: SettingOptions<string>): Setting<string> => declare(key, z.string(), (text) => text, options),
  /** A number, by default not negative. */
  number: (key: string, options: SettingOptions<number> & { min?: number; max?: number; integer?: boolean }): Setting<number> => {
    const { min = 0, max = Number.MAX_SAFE_INTEGER, integer = false } = options
    const number = integer ? z.int() : z.number()
    return declare(key, number.min(min).max(max), (text) => (text.trim() === '' ? text : Number(text)), options)
  },
  /** Comma-separated in the environment. */
  list: (key: string, options: SettingOptions<string[]>): Setting<string[]> =>
    declare(
      key,
      z.array(z.string()),
      (text) =>
        text
          .split(',')
          .map((part) => part.trim())
          .filter(Boolean),
      options,
    ),
  choice: <T extends string>(key: string, values: readonly [T, ...T[]], options: SettingOptions<T>): Setting<T> =>
    declare<T>(key, z.enum(values) as unknown as z.ZodType<T>, (text) => text, options),
  /** Every key below `key`, as one object. */
  section: <T>(key: string, schema: z.ZodType<T>, options: SettingOptions<T>): Setting<T> =>
    declare(key, schema, (text) => JSON.parse(text) as unknown, options, true),
}

/** A setting bound to the running configuration. */
export interface SettingValue<T> {
  readonly key: string
  get(): T
  /** Writes the configuration file, atomically. Rejects with `conflict` naming the variable when the environment pins the key. */
  set(value: T): Promise<void>
  /** Called after each change of a hot setting, with the new value. Returns the undo; a plugin's are undone at its stop. */
  onChange(handler: (value: T) => void): () => void
}

export type SettingValues<S> = { readonly [K in keyof S]: S[K] extends Setting<infer T> ? SettingValue<T> : never }
