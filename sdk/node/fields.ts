import { invalidParams } from './commandError.js'

/** How one parameter is read. */
export interface Field<T> {
  /** Throws an error that says what is wrong with the value, without its name. */
  read(value: unknown): T
}
/** What an object of fields, by name, reads. */
export type ParamsOf<F extends object> = { [K in keyof F]: F[K] extends Field<infer T> ? T : never }

const fail = (message: string): never => {
  throw new TypeError(message)
}

/** A text of at most `maxLength` UTF-16 units (default 10,000), not empty unless `minLength` is 0. */
export const string = ({
  minLength = 1,
  maxLength = 10_000,
  pattern,
}: { minLength?: number; maxLength?: number; pattern?: RegExp } = {}): Field<string> => ({
  read: value => {
    if (typeof value !== 'string') return fail('a text is needed')
    if (value.length < minLength) return fail('it is too short')
    if (value.length > maxLength) return fail(`it is longer than ${maxLength} characters`)
    return pattern && !pattern.test(value) ? fail(`it does not match ${String(pattern)}`) : value
  },
})

/** A whole number within bounds. */
export const integer = ({
  min = Number.MIN_SAFE_INTEGER,
  max = Number.MAX_SAFE_INTEGER,
}: { min?: number; max?: number } = {}): Field<number> => ({
  read: value => {
    if (typeof value !== 'number' || !Number.isSafeInteger(value)) return fail('a whole number is needed')
    return value < min || value > max ? fail(`it must be from ${min} to ${max}`) : value
  },
})

/** `true` or `false`. */
export const boolean = (): Field<boolean> => ({
  read: value => (typeof value === 'boolean' ? value : fail('true or false is needed')),
})

/** One of the texts that are listed. */
export const choice = <const T extends string>(...choices: readonly T[]): Field<T> => ({
  read: value => choices.find(one => one === value) ?? fail(`one of ${choices.join(', ')} is needed`),
})

/** A list of at most `maxItems` (default 100). */
export const list = <T>(item: Field<T>, { maxItems = 100 }: { maxItems?: number } = {}): Field<T[]> => ({
  read: value => {
    if (!Array.isArray(value)) return fail('a list is needed')
    return value.length > maxItems ? fail(`it has more than ${maxItems} items`) : value.map(one => item.read(one))
  },
})

/** An object with these fields; others are ignored. */
export const object = <F extends object>(fields: F): Field<ParamsOf<F>> => ({
  read: value => {
    if (typeof value !== 'object' || value === null || Array.isArray(value)) return fail('an object is needed')
    return readFields(fields, value as Record<string, unknown>, (name, message) => fail(`${name}: ${message}`))
  },
})

/** The field, or `undefined` where the parameter is absent or null. */
export const optional = <T>(field: Field<T>): Field<T | undefined> => ({
  read: value => (value === undefined || value === null ? undefined : field.read(value)),
})

/** The field, or `otherwise` where the parameter is absent or null. */
export const withDefault = <T>(field: Field<T>, otherwise: NoInfer<T>): Field<T> => ({
  read: value => (value === undefined || value === null ? otherwise : field.read(value)),
})

/** Reads a command's parameters; unknown ones are ignored. Throws `invalid_params` that names the parameter. */
export const readParams = <F extends object>(fields: F, params: Readonly<Record<string, unknown>>): ParamsOf<F> =>
  readFields(fields, params, (name, message) => {
    throw invalidParams(name, message)
  })

const readFields = <F extends object>(
  fields: F,
  values: Readonly<Record<string, unknown>>,
  refuse: (name: string, message: string) => never,
): ParamsOf<F> => {
  const read = (Object.entries(fields) as [string, Field<unknown>][]).map(([name, field]) => {
    try {
      return [name, field.read(Object.hasOwn(values, name) ? values[name] : undefined)] as const
    } catch (error) {
      return refuse(name, (error as Error).message)
    }
  })
  return Object.fromEntries(read) as ParamsOf<F>
}
