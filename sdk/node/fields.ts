import { invalidParams } from './commandError.js'

/** Reads one parameter; throws an error with what is wrong with it, without its name. */
export type Field<T> = (value: unknown) => T
/** The parameters of a command, by name. */
export type Fields = Readonly<Record<string, Field<unknown>>>
/** What a command with these fields is given. */
export type ParamsOf<F extends Fields> = { [K in keyof F]: F[K] extends Field<infer T> ? T : never }

const fail = (message: string): never => {
  throw new TypeError(message)
}

/** A text of at most `maxLength` UTF-16 units (default 10,000), not empty unless `minLength` is 0. */
export const string =
  ({ minLength = 1, maxLength = 10_000, pattern }: { minLength?: number; maxLength?: number; pattern?: RegExp } = {}): Field<string> =>
  value => {
    if (typeof value !== 'string') return fail('a text is needed')
    if (value.length < minLength) return fail('it is too short')
    if (value.length > maxLength) return fail(`it is longer than ${maxLength} characters`)
    return pattern && !pattern.test(value) ? fail(`it does not match ${String(pattern)}`) : value
  }

/** A whole number within bounds. */
export const integer =
  ({ min = Number.MIN_SAFE_INTEGER, max = Number.MAX_SAFE_INTEGER }: { min?: number; max?: number } = {}): Field<number> =>
  value => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) return fail('a whole number is needed')
    return value < min || value > max ? fail(`it must be from ${min} to ${max}`) : value
  }

/** `true` or `false`. */
export const boolean = (): Field<boolean> => value => (typeof value === 'boolean' ? value : fail('true or false is needed'))

/** One of the texts that are listed. */
export const choice =
  <const T extends string>(...choices: readonly T[]): Field<T> =>
  value =>
    choices.find(one => one === value) ?? fail(`one of ${choices.join(', ')} is needed`)

/** A list of at most `maxItems`. */
export const list =
  <T>(item: Field<T>, { maxItems = 100 }: { maxItems?: number } = {}): Field<T[]> =>
  value => {
    if (!Array.isArray(value)) return fail('a list is needed')
    return value.length > maxItems ? fail(`it has more than ${maxItems} items`) : value.map(item)
  }

/** An object with these fields; others are ignored. */
export const object =
  <F extends Fields>(fields: F): Field<ParamsOf<F>> =>
  value => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return fail('an object is needed')
    return readFields(fields, value as Record<string, unknown>, (name, message) => fail(`${name}: ${message}`))
  }

/** The field, or `undefined` where the parameter is absent or null. */
export const optional =
  <T>(field: Field<T>): Field<T | undefined> =>
  value =>
    value === undefined || value === null ? undefined : field(value)

/** The field, or `otherwise` where the parameter is absent or null. */
export const withDefault =
  <T>(field: Field<T>, otherwise: T): Field<T> =>
  value =>
    value === undefined || value === null ? otherwise : field(value)

/** Reads a command's parameters; unknown ones are ignored. Throws `invalid_params` that names the parameter. */
export const readParams = <F extends Fields>(fields: F, params: Readonly<Record<string, unknown>>): ParamsOf<F> =>
  readFields(fields, params, (name, message) => {
    throw invalidParams(name, message)
  })

const readFields = <F extends Fields>(
  fields: F,
  values: Readonly<Record<string, unknown>>,
  refuse: (name: string, message: string) => never,
): ParamsOf<F> => {
  const read = Object.entries(fields).map(([name, field]) => {
    try {
      return [name, field(Object.hasOwn(values, name) ? values[name] : undefined)] as const
    } catch (error) {
      return refuse(name, (error as Error).message)
    }
  })
  return Object.fromEntries(read) as ParamsOf<F>
}
