import type { protocolChecks } from '../protocolCheck.js'
import { brief } from './check.js'
import type { Answer } from './wire.js'

/** Faults kept of each kind: the first ones tell. */
const MAX_KEPT = 20

const HOST_METHODS = 'HostRequests/properties'
const PLUGIN_METHODS = 'PluginRequests/properties'
const PLUGIN_NOTES = 'PluginNotifications/properties'

/** Faults of one kind: the first few, and how many there were. */
class Faults {
  readonly first: string[] = []
  count = 0

  add(fault: string): void {
    this.count++
    if (this.first.length < MAX_KEPT && !this.first.includes(fault)) this.first.push(fault)
  }

  /** Nothing when there were none. */
  summary(): string | undefined {
    if (this.count === 0) return undefined
    const more = this.count > this.first.length ? ` (${this.count} in all)` : ''
    return brief(this.first.slice(0, 3).join('; ')) + more
  }
}

/** What a whole run has seen: faults that belong to no single check. */
export class Ledger {
  /** Lines on stdout that are no messages. */
  readonly noisy = new Faults()
  /** Answers that nobody waited for. */
  readonly strays = new Faults()
  /** Messages that are not as the schema says. */
  readonly malformed = new Faults()
  readonly #checkFor: Awaited<ReturnType<typeof protocolChecks>>
  readonly #surroundings: { id: string; version: string; dataDir: string }

  constructor(checkFor: Awaited<ReturnType<typeof protocolChecks>>, surroundings: { id: string; version: string; dataDir: string }) {
    this.#checkFor = checkFor
    this.#surroundings = surroundings
  }

  initializeParams(protocolVersions: readonly string[]): unknown {
    const { id, version, dataDir } = this.#surroundings
    return { protocolVersions, plugin: { id, version }, host: { name: 'conformance kit', version: '0.0.0' }, dataDir }
  }

  noise(line: string): void {
    this.noisy.add(brief(line))
  }

  broken(what: string): void {
    this.malformed.add(what)
  }

  stray(id: unknown, again: boolean): void {
    this.strays.add(again ? `the request ${brief(id)} was answered twice` : `an answer to ${brief(id)}, which was not asked or is over`)
  }

  answer(method: string, { result, error }: Answer): void {
    if (error !== undefined) this.#judge(`the error of ${method}`, 'RpcError', error)
    else this.#judge(`the answer to ${method}`, `${HOST_METHODS}/${method}/properties/result`, result)
  }

  request(method: string, id: unknown, params: unknown): void {
    this.#judge(`the id of ${method}`, 'RequestId', id)
    this.#judge(method, `${PLUGIN_METHODS}/${method}/properties/params`, params)
  }

  notification(method: string, params: unknown): void {
    this.#judge(method, `${PLUGIN_NOTES}/${method.replaceAll('/', '~1')}`, params)
  }

  #judge(what: string, ref: string, value: unknown): void {
    let fault: string | undefined
    try {
      fault = this.#checkFor(ref)(value)
    } catch {
      // Of a method that the checks made up, any answer will do; one that the plugin made up has no place.
      fault = ref.startsWith(HOST_METHODS) ? undefined : 'the gateway knows no such method'
    }
    if (fault !== undefined) this.malformed.add(`${brief(what)}: ${fault}`)
  }
}
