import { newId } from '../../core/id.js'
import type { GenerateParams } from '../../sdk/protocol.js'
import type { Step } from '../models/contract.js'
import type { PluginHost } from '../plugins/contract.js'
import { BadAnswer, checkLength, readStep } from './answers.js'

/** A hard end of the call itself; what asks has an earlier one. */
const HARD_TIMEOUT_MS = 3_600_000

/** An answer on its way. */
interface Generation {
  pluginId: string
  /** Takes a piece of its text. */
  take(text: unknown): void
}

/** Answers that plugins are making, each known by an id that its pieces name. */
export class Generations {
  readonly #host: PluginHost
  readonly #silenceMs: () => number
  readonly #open = new Map<string, Generation>()

  constructor(host: PluginHost, silenceMs: () => number) {
    this.#host = host
    this.#silenceMs = silenceMs
  }

  /** To be told of each `model.delta`. One of another plugin, of no generation or of one that is over is nobody's. */
  readonly hear = (pluginId: string, params: unknown): void => {
    const { generationId, text } = (typeof params === 'object' && params !== null ? params : {}) as Record<string, unknown>
    const generation = typeof generationId === 'string' ? this.#open.get(generationId) : undefined
    if (generation?.pluginId === pluginId) generation.take(text)
  }

  /** Asks once. Rejects with an `RpcError`, a `BadAnswer`, an error that says it was silent for too long, or the reason of `signal`. */
  async run(pluginId: string, request: Omit<GenerateParams, 'generationId'>, signal: AbortSignal): Promise<Step> {
    signal.throwIfAborted()
    const generationId = newId('gen')
    const ended = new AbortController()
    const silenceMs = this.#silenceMs()
    const silence = setTimeout(() => ended.abort(new Error(`it was silent for ${silenceMs / 1000} s`)), silenceMs)
    const pieces: string[] = []
    let length = 0
    const take = (text: unknown): void => {
      try {
        if (typeof text !== 'string') throw new BadAnswer('a piece of its answer is not a text')
        length += text.length
        checkLength(length)
        pieces.push(text)
        silence.refresh()
      } catch (error) {
        ended.abort(error)
      }
    }
    this.#open.set(generationId, { pluginId, take })
    try {
      const answer = await this.#host.request(
        pluginId,
        'model.generate',
        { ...request, generationId },
        {
          timeoutMs: HARD_TIMEOUT_MS,
          signal: AbortSignal.any([signal, ended.signal]),
          onProgress: () => silence.refresh(),
        },
      )
      ended.signal.throwIfAborted()
      return readStep(answer, pieces.join(''))
    } catch (error) {
      signal.throwIfAborted()
      ended.signal.throwIfAborted()
      throw error
    } finally {
      clearTimeout(silence)
      this.#open.delete(generationId)
    }
  }
}
