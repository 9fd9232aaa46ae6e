import { setTimeout as sleep } from 'node:timers/promises'
import { LineReader } from '../lineReader.js'
import { MAX_FRAME_BYTES, PROTOCOL_VERSIONS, RpcErrorCode } from '../protocol.js'
import type { Launched, PluginExit } from '../testLaunch.js'
import { brief, Failure } from './check.js'
import type { Ledger } from './ledger.js'

/** How long an answer may take, when nothing else is said. */
export const ANSWER_MS = 10_000

export type Id = number | string

/** An answer as it came. */
export interface Answer {
  id: unknown
  result?: unknown
  error?: { code?: unknown; message?: unknown; data?: unknown }
}

interface Question {
  method: string
  settle: (answer: Answer) => void
}

/**
 * The gateway's end of the connection, by hand: sends what a peer never would, and keeps a record of what comes. It
 * holds what is asked and under way, and nothing of what was answered but the ids.
 */
export class Wire {
  readonly exited: Promise<PluginExit>
  readonly #launched: Launched
  readonly #ledger: Ledger
  readonly #answerMs: number
  readonly #asked = new Map<Id, Question>()
  readonly #answered = new Set<unknown>()
  readonly #givenUp = new Set<unknown>()
  /** What models have said, by the answer's name. */
  readonly #said = new Map<unknown, string>()
  #lastId = 0
  #exit: PluginExit | undefined
  #silentSince = performance.now()

  constructor(launched: Launched, ledger: Ledger, answerMs: number) {
    this.#answerMs = answerMs
    this.#launched = launched
    this.#ledger = ledger
    const reader = new LineReader(
      MAX_FRAME_BYTES,
      line => this.#hear(line),
      () => {
        ledger.broken('it sent a line of more than 16 MiB')
        this.kill()
      },
    )
    launched.input.on('data', chunk => {
      this.#silentSince = performance.now()
      reader.push(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
    })
    // Writing to a process that has ended is part of the checks.
    launched.output.on('error', () => undefined)
    this.exited = launched.exited.then(exit => (this.#exit = exit))
  }

  get ended(): boolean {
    return this.#exit !== undefined
  }

  /** Raw bytes, whether they are a message or not. */
  write(bytes: string | Uint8Array): void {
    if (!this.ended) this.#launched.output.write(bytes)
  }

  send(message: object): void {
    this.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
  }

  notify(method: string, params: unknown): void {
    this.send({ method, params })
  }

  /** Sends a request. `params` of `undefined` are left out. The answer is judged by the caller. */
  ask(method: string, params?: unknown, options: { id?: Id; timeoutMs?: number } = {}): Promise<Answer> {
    const id = options.id ?? ++this.#lastId
    const answer = this.expectAnswer(id, method, options.timeoutMs)
    this.send({ id, method, ...(params === undefined ? {} : { params }) })
    return answer
  }

  /** For a request that is written by hand. Rejects when no answer comes, or the process ends before. */
  async expectAnswer(id: Id, method: string, limitMs = ANSWER_MS): Promise<Answer> {
    const timeoutMs = Math.min(limitMs, this.#answerMs)
    const answer = new Promise<Answer>(settle => this.#asked.set(id, { method, settle }))
    const controller = new AbortController()
    const late = sleep(timeoutMs, 'late', { signal: controller.signal }).catch(() => 'late')
    const outcome = await Promise.race([answer, late, this.exited.then(() => 'ended')])
    controller.abort()
    if (typeof outcome === 'object') return outcome
    this.#asked.delete(id)
    if (outcome === 'late') throw new Failure(`${method} was not answered within ${timeoutMs / 1000} s`)
    throw new Failure(`it ended (${this.#describeExit()}) instead of answering ${method}${this.#lastWords()}`)
  }

  /** Sends a request that must succeed. */
  async result(method: string, params?: unknown, options: { id?: Id; timeoutMs?: number } = {}): Promise<Record<string, unknown>> {
    const { result, error } = await this.ask(method, params, options)
    if (error !== undefined) throw new Failure(`${method} was refused: ${brief(error)}`)
    return result as Record<string, unknown>
  }

  /** Sends a request that must fail with one of the codes. */
  async refusal(method: string, params: unknown, codes: readonly number[]): Promise<void> {
    const { result, error } = await this.ask(method, params)
    if (error === undefined)
      throw new Failure(`${method} was answered with ${brief(result)}, an error was expected (${codes.join(' or ')})`)
    if (!codes.includes(error.code as number))
      throw new Failure(`${method} failed with ${brief(error.code)} (${brief(error.message)}), ${codes.join(' or ')} was expected`)
  }

  /** Nobody waits for the answer to this request: it may come, but once. */
  giveUp(id: Id): void {
    this.#givenUp.add(id)
  }

  /** Sends a request and gives it up at once. */
  askAndCancel(method: string, params: unknown): void {
    const id = ++this.#lastId
    this.giveUp(id)
    this.send({ id, method, params })
    this.notify('$/cancel', { id })
  }

  /** Keeps the pieces of an answer that a model says; the function gives what came so far. */
  collect(generationId: string): () => string {
    this.#said.set(generationId, '')
    return () => this.#said.get(generationId) ?? ''
  }

  handshake(protocolVersions: readonly string[] = PROTOCOL_VERSIONS): Promise<Answer> {
    return this.ask('plugin.initialize', this.#ledger.initializeParams(protocolVersions))
  }

  /** Fails when the process does not answer a ping any more. */
  async mustBeAlive(after: string): Promise<void> {
    try {
      await this.result('plugin.ping', {}, { timeoutMs: 5000 })
    } catch (error) {
      throw new Failure(`after ${after}: ${(error as Error).message}`)
    }
  }

  /** Waits until nothing has come for a while. */
  async quiet(silenceMs: number): Promise<void> {
    while (!this.ended && performance.now() - this.#silentSince < silenceMs) await sleep(10)
  }

  /** How it ended; rejects when it has not, within the time. */
  async endsWithin(limitMs: number, after: string): Promise<PluginExit> {
    const milliseconds = Math.min(limitMs, this.#answerMs)
    const controller = new AbortController()
    const late = sleep(milliseconds, undefined, { signal: controller.signal }).catch(() => undefined)
    const exit = await Promise.race([this.exited, late])
    controller.abort()
    if (exit) return exit
    throw new Failure(`it still runs ${milliseconds / 1000} s after ${after}`)
  }

  endInput(): void {
    this.#launched.endInput()
  }

  kill(signal: NodeJS.Signals = 'SIGKILL'): void {
    this.#launched.kill(signal)
  }

  /** Ends the process whatever it does. */
  async dispose(): Promise<void> {
    if (!this.ended) this.kill()
    await this.exited
  }

  #hear(line: string): void {
    if (line.trim() === '') return
    let message: unknown
    try {
      message = JSON.parse(line)
    } catch {
      message = undefined
    }
    const { jsonrpc, id, method, params, result, error } = (message ?? {}) as Record<string, unknown>
    if (jsonrpc !== '2.0' || Array.isArray(message)) this.#ledger.noise(line)
    else if (typeof method === 'string' && id !== undefined) this.#answer(id, method, params)
    else if (typeof method === 'string') this.#note(method, params)
    else if (id !== undefined && (result !== undefined || error !== undefined)) this.#settle({ id, ...(message as object) })
    else this.#ledger.noise(line)
  }

  #note(method: string, params: unknown): void {
    this.#ledger.notification(method, params)
    if (method !== 'model.delta') return
    const { generationId, text } = (params ?? {}) as { generationId?: unknown; text?: unknown }
    const before = this.#said.get(generationId)
    if (before === undefined) this.#ledger.broken(`model.delta of ${brief(generationId)}, which was not asked for`)
    else this.#said.set(generationId, before + String(text))
  }

  #settle(answer: Answer): void {
    const question = this.#asked.get(answer.id as Id)
    if (!question) {
      // An error without an id is the answer to a message whose id could not be read.
      if (answer.id !== null && !this.#givenUp.delete(answer.id)) this.#ledger.stray(answer.id, this.#answered.has(answer.id))
      return
    }
    this.#asked.delete(answer.id as Id)
    this.#answered.add(answer.id)
    this.#ledger.answer(question.method, answer)
    question.settle(answer)
  }

  /** The plugin's own requests. */
  #answer(id: unknown, method: string, params: unknown): void {
    this.#ledger.request(method, id, params)
    if (method === 'channel.receive') {
      const { messages } = (params ?? {}) as { messages?: unknown[] }
      this.send({ id, result: { accepted: Array.isArray(messages) ? messages.length : 0 } })
    } else this.send({ id, error: { code: RpcErrorCode.methodNotFound, message: `There is no method ${method.slice(0, 100)}` } })
  }

  #describeExit(): string {
    return this.#exit?.signal ?? `code ${String(this.#exit?.code)}`
  }

  #lastWords(): string {
    const lines = this.#launched.stderr().trim().split('\n').slice(-3)
    return lines[0] === '' ? '' : `; its last words: ${brief(lines.join(' | '))}`
  }
}
