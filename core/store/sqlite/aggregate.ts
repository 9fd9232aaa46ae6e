import { serviceUnavailable } from '../../errors.js'
import type { JsonObject } from '../json.js'
import type { StoreThread } from './thread.js'
import { revive } from './thread.js'
import type { Failure } from './worker.js'

const maxWaiting = 100

/** Aggregations, one after the other, in a thread that neither the event loop nor the writes wait for. */
export class Aggregations {
  readonly #thread: StoreThread
  #last: Promise<unknown> = Promise.resolve()
  #waiting = 0

  constructor(thread: StoreThread) {
    this.#thread = thread
  }

  /** The JSON text of the result. Rejects with `service_unavailable` when too many wait. */
  async run(collection: string, filter: JsonObject, pipeline: JsonObject[]): Promise<string> {
    if (this.#waiting >= maxWaiting) throw serviceUnavailable('Too many aggregations are waiting: try again in a moment', 1)
    this.#waiting++
    const answer = this.#last.then(() => this.#thread.ask({ aggregate: { collection, filter, pipeline } }))
    this.#last = answer.catch(() => undefined).finally(() => this.#waiting--)
    const result = (await answer) as { text: string } | Failure
    if ('error' in result) throw revive(result, collection)
    return result.text
  }

  async close(): Promise<void> {
    await this.#last
    await this.#thread.close()
  }
}
