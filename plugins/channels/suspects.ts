import type { PluginConnection } from '../plugins/contract.js'
import type { Connector } from './connector.js'
import type { Delivery } from './rows.js'
import { Serial } from './serial.js'

/**
 * When a plugin dies, everything that it had under way may have been the cause. Such deliveries are tried one at a time
 * for each plugin from then on, so that only the one that kills it is given up, and not what was beside it.
 */
export class Suspects {
  readonly #connector: Connector
  readonly #serial = new Serial()

  constructor(connector: Connector) {
    this.#connector = connector
  }

  /** Calls `deliver` with the process of the connected channel, in turn if need be; with `undefined` when there is none then. */
  try<T>({ channelId, crashes }: Delivery, deliver: (process: PluginConnection | undefined) => Promise<T>): Promise<T> {
    const now = (): Promise<T> => deliver(this.#connector.connected(channelId))
    return crashes === 0 ? now() : this.#serial.run(this.#connector.get(channelId)?.pluginId ?? '', now)
  }
}
