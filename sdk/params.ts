import { RpcErrorCode, type HostRequests } from './protocol.js'
import { RpcError } from './rpcError.js'

type Shape = Readonly<Record<string, 'string' | 'object' | 'list'>>

const channel: Shape = { channelId: 'string', settings: 'object', webhookUrl: 'string' }

/** What the SDK itself relies on. A field more is no fault; one that lacks, or is of another type, is. */
const shapes: { readonly [M in keyof HostRequests]?: Shape } = {
  'channel.connect': channel,
  'channel.disconnect': { channelId: 'string' },
  'channel.test': channel,
  'channel.webhook': { channelId: 'string', deliveryId: 'string', request: 'object' },
  'channel.send': { channelId: 'string', deliveryId: 'string', recipient: 'string', text: 'string', metadata: 'object' },
  'extractor.extract': { path: 'string', name: 'string', outputDir: 'string' },
  'model.generate': { generationId: 'string', messages: 'list', settings: 'object' },
  'model.list': { settings: 'object' },
  'embedding.embed': { texts: 'list', purpose: 'string', settings: 'object' },
}

const words = { string: 'a non-empty string', object: 'an object', list: 'an array' } as const

const isOf = (type: keyof typeof words, value: unknown): boolean =>
  type === 'list' ? Array.isArray(value) : typeof value === type && value !== null && !Array.isArray(value)

/** Throws `invalidParams` for params that the method cannot be served with. */
export function checkParams(method: keyof HostRequests, params: object): void {
  for (const [name, type] of Object.entries(shapes[method] ?? {})) {
    const value = (params as Record<string, unknown>)[name]
    if (isOf(type, value) && (value !== '' || name === 'text')) continue
    throw new RpcError(RpcErrorCode.invalidParams, `${method}: ${name} must be ${words[type]}`)
  }
}
