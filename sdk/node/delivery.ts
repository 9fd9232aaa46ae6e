import { backOffMs } from './backOff.js'
import { toFailure } from './commandError.js'
import { GatewayError, type GatewayApi } from './gatewayApi.js'
import { isFinalRefusal, ResultRefused, type HubLink } from './hubLink.js'
import type { NodeLog } from './log.js'
import type { CommandMemory } from './memory.js'
import { toMessages } from './parts.js'
import type { CommandResult, ResultMessage } from './protocol.js'

/** Results on their way at once; more wait. */
const MAX_SENDING = 16
const ANSWER_LIMIT_MS = 30_000
const RETRY = { baseMs: 500, maxMs: 30_000 }

/** The way results take at the moment. */
export type Way = HubLink | GatewayApi

interface Parts {
  memory: CommandMemory
  log: NodeLog
}

/** Brings results to the gateway, over whatever way there is, until it has taken or refused them. */
export class Delivery {
  readonly #parts: Parts
  readonly #waiting = new Map<string, CommandResult>()
  readonly #sending = new Set<string>()
  #way: Way | undefined
  #failures = 0
  /** After a failure nothing is sent until the next try. */
  #isHeld = false
  #retry: NodeJS.Timeout | undefined

  constructor(parts: Parts) {
    this.#parts = parts
    for (const result of parts.memory.undelivered()) this.#waiting.set(result.commandId, result)
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0
  }

  deliver(result: CommandResult): void {
    this.#waiting.set(result.commandId, result)
    this.#pump()
  }

  /** `undefined`: there is none; results wait. */
  useWay(way: Way | undefined): void {
    this.#way = way
    this.#failures = 0
    this.#release()
  }

  /** Resolves once everything is delivered, or the time is over. */
  async flushed(limitMs: number): Promise<void> {
    const deadline = Date.now() + limitMs
    while (!this.isEmpty && this.#way && Date.now() < deadline) await new Promise(resolve => setTimeout(resolve, 20))
  }

  stop(): void {
    this.#way = undefined
    clearTimeout(this.#retry)
  }

  #pump(): void {
    if (this.#isHeld) return
    for (const [commandId, result] of this.#waiting) {
      if (!this.#way || this.#sending.size >= MAX_SENDING) return
      if (this.#sending.has(commandId)) continue
      this.#sending.add(commandId)
      void this.#send(result, this.#way)
    }
  }

  async #send(result: CommandResult, way: Way): Promise<void> {
    const { commandId } = result
    const { log } = this.#parts
    try {
      for (const message of messagesOf(result)) await sendOver(way, message)
      await this.#done(result)
    } catch (error) {
      const isRefused = error instanceof ResultRefused || (error instanceof GatewayError && isFinal(error))
      if (isRefused) {
        log('warn', `the gateway did not take a result: ${error.message}`, { commandId })
        await this.#done(result)
      } else if (way === this.#way) this.#tryLater(error)
    } finally {
      this.#sending.delete(commandId)
      this.#pump()
    }
  }

  async #done(result: CommandResult): Promise<void> {
    // A busy command may have been asked again, and have another result, meanwhile.
    if (this.#waiting.get(result.commandId) === result) this.#waiting.delete(result.commandId)
    this.#failures = 0
    try {
      await this.#parts.memory.delivered(result.commandId)
    } catch (error) {
      this.#parts.log('error', 'a delivery could not be remembered', { commandId: result.commandId, error: String(error) })
    }
  }

  #tryLater(error: unknown): void {
    this.#parts.log('warn', `a result could not be delivered and is tried again: ${error instanceof Error ? error.message : String(error)}`)
    const after = error instanceof GatewayError ? error.retryAfterMs : undefined
    this.#failures += 1
    this.#isHeld = true
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#release(), after ?? backOffMs(this.#failures, RETRY))
  }

  #release(): void {
    this.#isHeld = false
    clearTimeout(this.#retry)
    this.#pump()
  }
}

const isFinal = (error: GatewayError): boolean =>
  !error.isTemporary && !error.isUnauthenticated && (isFinalRefusal(error.code) || error.status < 500)

const messagesOf = (result: CommandResult): ResultMessage[] => {
  try {
    return toMessages(result)
  } catch (error) {
    return toMessages({ commandId: result.commandId, ok: false, error: toFailure(error), durationMs: result.durationMs })
  }
}

const sendOver = async (way: Way, message: ResultMessage): Promise<void> => {
  if ('ended' in way) await way.result(message, ANSWER_LIMIT_MS)
  else await way.result(message)
}
