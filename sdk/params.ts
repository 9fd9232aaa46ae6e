import { RpcErrorCode, type HostRequests } from './protocol.js'
import { RpcError } from './rpcError.js'

type Shape = Readonly<Record<string, 'string' | 'object'>>

const channel: Shape = { channelId: 'string', settings: 'object', webhookUrl: 'string' }

/** What the SDK itself relies on. A field more is no fault; one that lacks, or is of another type, is. */
const shapes: { readonly [M in keyof HostRequests]?: Shape } = {
  'channel.connect': channel,
  'channel.disconnect': { channelId: 'string' },
  'channel.test': channel,
  'channel.webhook': { channelId: 'string', deliveryId: 'string', request: 'object' },
  'channel.send': { channelId: 'string', deliveryId: 'string', recipient: 'string', text: 'string', metadata: 'object' },
  'extractor.extract': { path: 'string', name: 'string', outputDir: 'string' },
  'model.generate': { generationId: 'string', settings: 'object' },
  'model.list': { settings: 'object' },
  'embedding.embed': { purpose: 'string', settings: 'object' },
}

/** Throws `invalidParams` for params that the method cannot be served with. */
export function checkParams(method: keyof HostRequests, params: object): void {
  for (const [name, type] of Object.entries(shapes[method] ?? {})) {
    const value = (params as Record<string, unknown>)[name]
    const isBlank = value === '' && name !== 'text'
    if (typeof value === type && value !== null && !Array.isArray(value) && !isBlank) continue
    throw new RpcError(RpcErrorCode.invalidParams, `${method}: ${name} must be ${type === 'object' ? 'an object' : 'a non-empty string'}`)
  }
}
