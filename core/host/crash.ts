import { RpcErrorCode } from '../../sdk/protocol.js'
import { RpcError } from '../../sdk/rpc.js'

/** The plugin's process ended by itself, or was ended for what it did, while the call was under way. */
export class PluginCrashed extends RpcError {
  constructor(pluginId: string, cause: unknown) {
    super(
      RpcErrorCode.connectionClosed,
      `The plugin ${pluginId} ended while it worked on this`,
      { retryable: true, retryAfterMs: 1000 },
      cause,
    )
    this.name = 'PluginCrashed'
  }
}
