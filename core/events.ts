import { z } from 'zod'
import type { Log } from './log.js'
import { event, type EventRef } from './plugin.js'

/** The gateway answers requests at `url`. What takes long to start (external plugins) starts now, not before. */
export const gatewayListening = event('gateway.listening', z.object({ url: z.string() }))

type Handler = (payload: never) => void | Promise<void>

/** The in-process bus. Handlers run after the emitter's turn; a failing one is logged and hurts no one else. */
export class EventBus {
  readonly #log: Log
  readonly #handlers = new Map<string, Set<Handler>>()
  readonly #running = new Set<Promise<void>>()

  constructor(log: Log) {
    this.#log = log
  }

  on<T>(ref: EventRef<T>, handler: (payload: T) => void | Promise<void>): () => void {
    const handlers = this.#handlers.get(ref.id) ?? new Set()
    this.#handlers.set(ref.id, handlers)
    handlers.add(handler)
    return () => {
      handlers.delete(handler)
    }
  }

  /** Throws when the payload breaks the event's schema: that is the emitter's mistake. */
  emit<T>(ref: EventRef<T>, payload: T): void {
    const checked = ref.schema.parse(payload)
    for (const handler of this.#handlers.get(ref.id) ?? []) this.#run(ref.id, handler as (payload: T) => void | Promise<void>, checked)
  }

  /** Resolves when every handler that was called has finished. */
  async settled(): Promise<void> {
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
  }

  #run<T>(id: string, handler: (payload: T) => void | Promise<void>, payload: T): void {
    const run = Promise.resolve()
      .then(() => handler(payload))
      .catch((error: unknown) => this.#log.error({ err: error, event: id }, `a handler of ${id} failed`))
      .finally(() => this.#running.delete(run))
    this.#running.add(run)
  }
}
