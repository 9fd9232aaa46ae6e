import type { GenerateRequest, ModelTool } from './contract.js'

/** A limit on the time that a model takes for an answer. It stands still while tools work: a person may have to allow what they do. */
export class Patience {
  readonly #over = new AbortController()
  #leftMs: number
  #since = performance.now()
  #working = 0
  #timer: NodeJS.Timeout | undefined
  #isEnded = false

  constructor(limitMs: number) {
    this.#leftMs = limitMs
    this.#start()
  }

  /** Aborted when the time is over. */
  get signal(): AbortSignal {
    return this.#over.signal
  }

  /** The request, with tools whose time does not count. */
  with(request: GenerateRequest): GenerateRequest {
    if (!request.tools) return request
    return { ...request, tools: request.tools.map(tool => ({ ...tool, execute: parameters => this.#rest(tool, parameters) })) }
  }

  /** Nobody waits any more. */
  end(): void {
    this.#isEnded = true
    clearTimeout(this.#timer)
  }

  async #rest(tool: ModelTool, parameters: unknown): Promise<unknown> {
    if (this.#working === 0) {
      this.#leftMs -= performance.now() - this.#since
      clearTimeout(this.#timer)
    }
    this.#working += 1
    try {
      return await tool.execute(parameters)
    } finally {
      this.#working -= 1
      if (this.#working === 0) this.#start()
    }
  }

  #start(): void {
    // A tool may end after the answer was given up.
    if (this.#isEnded) return
    this.#since = performance.now()
    this.#timer = setTimeout(() => this.#over.abort(new Error('The time for the answer is over')), Math.max(0, this.#leftMs)).unref()
  }
}
