import { RpcError } from '../../sdk/rpc.js'
import { RpcErrorCode, type PluginNotifications, type PluginRequests } from '../../sdk/protocol.js'
import type { PluginProcess } from './process.js'

export type Serve = (pluginId: string, params: never) => Promise<unknown>
export type Hear = (pluginId: string, params: never) => void
export type HandoverHook = (pluginId: string, next: PluginProcess, old: PluginProcess | undefined) => Promise<void>

/** What the areas of the gateway want to do when plugins ask, tell, take over or change. */
export class Hooks {
  readonly #served = new Map<string, Serve>()
  readonly #heard = new Map<string, Set<Hear>>()
  readonly #handovers = new Set<HandoverHook>()
  readonly #changed = new Set<(pluginId: string) => void>()

  serve(method: keyof PluginRequests, handler: Serve): () => void {
    if (this.#served.has(method)) throw new Error(`Two areas answer the plugins' request ${method}`)
    this.#served.set(method, handler)
    return () => this.#served.delete(method)
  }

  onNotification(method: keyof PluginNotifications, handler: Hear): () => void {
    const handlers = this.#heard.get(method) ?? new Set()
    this.#heard.set(method, handlers)
    return register(handlers, handler)
  }

  onHandover(hook: HandoverHook): () => void {
    return register(this.#handovers, hook)
  }

  onChange(handler: (pluginId: string) => void): () => void {
    return register(this.#changed, handler)
  }

  answer(id: string, method: keyof PluginRequests, params: unknown): Promise<unknown> {
    const handler = this.#served.get(method)
    if (!handler) throw new RpcError(RpcErrorCode.methodNotFound, `Nothing here answers ${method}`)
    return handler(id, params as never)
  }

  hear(id: string, method: keyof PluginNotifications, params: unknown): void {
    for (const handler of this.#heard.get(method) ?? []) handler(id, params as never)
  }

  async handOver(id: string, next: PluginProcess, old: PluginProcess | undefined): Promise<void> {
    for (const hook of this.#handovers) await hook(id, next, old)
  }

  tellChange(id: string): void {
    for (const handler of [...this.#changed]) handler(id)
  }
}

const register = <T>(set: Set<T>, item: T): (() => void) => {
  set.add(item)
  return () => set.delete(item)
}
