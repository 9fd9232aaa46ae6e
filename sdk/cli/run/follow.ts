import { setTimeout as sleep } from 'node:timers/promises'
import { CliError } from '../project.js'
import { TooMany, type Gateway, type PluginRecord } from './gateway.js'
import type { Screen } from './screen.js'

/** While something happens, and while nothing does: a gateway answers 120 reads a minute. */
const BUSY_MS = 700
const IDLE_MS = 3000
/** How long after a build something is expected to happen. */
const BUSY_FOR_MS = 15_000
const AGAIN_MS = 1000

const SETTLED = new Set(['ready', 'failed', 'rejected', 'stopped', 'disabled'])

/** Shows what becomes of a plugin in a gateway: its states, and its log where the gateway streams it. */
export class Follower {
  readonly #gateway: Gateway
  readonly #id: string
  readonly #screen: Screen
  readonly #onReady: (record: PluginRecord) => void
  readonly #stopped = new AbortController()
  #shown = ''
  #shownError: string | undefined
  #readyPid: number | undefined
  #busyUntil = 0
  readonly #waiting = new Set<() => void>()
  #trouble = ''

  constructor(gateway: Gateway, id: string, screen: Screen, onReady: (record: PluginRecord) => void) {
    this.#gateway = gateway
    this.#id = id
    this.#screen = screen
    this.#onReady = onReady
  }

  /** Until `stop`. */
  async run(): Promise<void> {
    await Promise.all([this.#followState(), this.#followLogs()])
  }

  /** Something is about to happen. */
  expectNews(): void {
    this.#busyUntil = performance.now() + BUSY_FOR_MS
    this.#wake()
  }

  stop(): void {
    this.#stopped.abort()
    this.#wake()
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted
  }

  async #followState(): Promise<void> {
    while (!this.#isStopped) {
      let waitMs = BUSY_MS
      try {
        const record = await this.#gateway.plugin(this.#id)
        this.#trouble = ''
        if (record) this.#show(record)
        if (record && SETTLED.has(record.state) && performance.now() > this.#busyUntil) waitMs = IDLE_MS
      } catch (error) {
        waitMs = error instanceof TooMany ? error.retryAfterMs : IDLE_MS
        this.#complain(error)
      }
      await this.#wait(waitMs)
    }
  }

  #show(record: PluginRecord): void {
    const { state, version, pid, reason, lastError, sandbox } = record
    const facts = [version, ...(pid === undefined ? [] : [`pid ${pid}`]), ...(sandbox?.tier ? [`sandbox ${sandbox.tier}`] : [])]
    const line = `${facts.join(', ')}${reason === undefined ? '' : `: ${reason}`}`
    if (`${state} ${line}` !== this.#shown) this.#screen.say(state, line)
    this.#shown = `${state} ${line}`
    if (lastError !== undefined && lastError !== this.#shownError && !(reason ?? '').includes(lastError))
      this.#screen.say('error', lastError)
    this.#shownError = lastError
    if (state !== 'ready' || pid === this.#readyPid) return
    this.#readyPid = pid
    this.#onReady(record)
  }

  async #followLogs(): Promise<void> {
    const { signal } = this.#stopped
    let everStreamed = false
    while (!this.#isStopped) {
      try {
        const streamed = await this.#gateway.followLogs(this.#id, signal, ({ level, text }) => this.#screen.say(level ?? 'log', text))
        if (!streamed && !everStreamed && (await this.#gateway.plugin(this.#id))) {
          this.#screen.say('log', 'this gateway streams no logs of plugins: their stderr is in its own log, states are shown here')
          return
        }
        everStreamed ||= streamed
      } catch (error) {
        this.#complain(error)
      }
      await this.#wait(AGAIN_MS)
    }
  }

  /** Once for each trouble. */
  #complain(error: unknown): void {
    if (error instanceof TooMany || this.#isStopped) return
    const { message } = error as Error
    if (message !== this.#trouble) this.#screen.say('gateway', error instanceof CliError ? message : `the connection was lost: ${message}`)
    this.#trouble = message
  }

  async #wait(milliseconds: number): Promise<void> {
    if (this.#isStopped) return
    const controller = new AbortController()
    const wake = (): void => controller.abort()
    this.#waiting.add(wake)
    await sleep(milliseconds, undefined, { signal: controller.signal }).catch(() => undefined)
    this.#waiting.delete(wake)
  }

  #wake(): void {
    for (const wake of this.#waiting) wake()
  }
}
