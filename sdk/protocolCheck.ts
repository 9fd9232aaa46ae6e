import type { ErrorObject } from 'ajv'
import schema from './protocol.schema.json' with { type: 'json' }

/** Says what is wrong with a value, or nothing. */
export type Check = (value: unknown) => string | undefined

const MAX_PROBLEMS = 3

/**
 * Checks against `protocol.schema.json`. `ref` is the path of a definition, for example `InboundMessage` or
 * `HostRequests/properties/channel.send/properties/result`; one that does not exist throws.
 */
export async function protocolChecks(): Promise<(ref: string) => Check> {
  const { Ajv2020 } = await import('ajv/dist/2020.js')
  const ajv = new Ajv2020({ strict: false, verbose: false }).addSchema(schema, 'protocol')
  return ref => {
    const validate = ajv.getSchema(`protocol#/$defs/${ref}`)
    if (!validate) throw new Error(`The protocol's schema has no ${ref}`)
    return value => (validate(value) === true ? undefined : describe(validate.errors ?? []))
  }
}

const describe = (errors: readonly ErrorObject[]): string =>
  errors
    .slice(0, MAX_PROBLEMS)
    .map(({ instancePath, message = 'is not as the schema says' }) => `${instancePath.slice(1).replaceAll('/', '.') || 'it'} ${message}`)
    .join('; ')
