import { RpcError, temporary } from '../../sdk/rpc.js'
import { RpcErrorCode, type ReceiveParams, type ReceiveResult } from '../../sdk/protocol.js'
import type { Connector } from './connector.js'
import { readFailure } from './failure.js'
import type { Inbox } from './inbox.js'
import type { Leases } from './leases.js'
import { readReceive } from './messages.js'

/** What a full inbox says, in the words of the plugin protocol: the adapter keeps its place and comes again. */
const asTemporary = (error: unknown): never => {
  const { kind, message, retryAfterMs = 0 } = readFailure(error)
  throw kind === 'busy' ? temporary(message, { retryAfterMs }) : error
}

interface ReceiveParts {
  connector: Connector
  inbox: Inbox
  leases: Leases
  onStored: (channelId: string) => void
}

/** Takes messages that an adapter fetched by itself. They are on disk, and the cursor behind them, when this resolves. */
export const receiveFromAdapter =
  ({ connector, inbox, leases, onStored }: ReceiveParts) =>
  async (pluginId: string, params: ReceiveParams): Promise<ReceiveResult> => {
    const { channelId, messages, cursor } = readReceive(params)
    if (connector.get(channelId)?.pluginId !== pluginId)
      throw new RpcError(
        RpcErrorCode.rejected,
        'This plugin has no such channel connected: messages are taken between connect and disconnect',
      )
    const accepted = await inbox.accept(channelId, messages).catch(asTemporary)
    // Behind the messages: a crash in between brings them again, and they are known.
    if (cursor !== undefined) await leases.save(channelId, { cursor })
    if (messages.length > 0) onStored(channelId)
    return { accepted }
  }
