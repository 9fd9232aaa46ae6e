import type { AnyCommand } from './command.js'
import { busy, CommandError, platformUnsupported, toFailure } from './commandError.js'
import { readParams } from './fields.js'
import { Lanes } from './lanes.js'
import type { NodeLog } from './log.js'
import type { CommandMemory } from './memory.js'
import type { CommandResult, ExecuteCommand } from './protocol.js'
import { isAllowedLocally, isGranted } from './scopes.js'

/** Commands that wait for their turn; more are answered with `busy`. */
const MAX_WAITING = 1024
const BUSY_RETRY_MS = 1000

export interface Progress {
  percent?: number
  message?: string
}

/** A command that has not ended. */
export interface Running {
  readonly command: ExecuteCommand
  readonly since: number
  readonly controller: AbortController
  /** The newest, until it is sent. */
  progress: Progress | undefined
}

interface Parts {
  commands: readonly AnyCommand[]
  memory: CommandMemory
  maxRunning: number
  /** What the gateway allows, asked anew where `isAllowed` says no and the answer may be old. */
  granted: (command: string) => Promise<readonly string[]>
  local: () => readonly string[]
  deliver: (result: CommandResult) => void
  log: NodeLog
}

/** Runs what the gateway sends: once, within the scopes, in time. */
export class Runner {
  readonly #parts: Parts
  readonly #commands: ReadonlyMap<string, AnyCommand>
  readonly #running = new Map<string, Running>()
  readonly #lanes: Lanes
  #isClosed = false

  constructor(parts: Parts) {
    this.#parts = parts
    this.#commands = new Map(parts.commands.map(command => [command.name, command]))
    this.#lanes = new Lanes({ maxRunning: parts.maxRunning, maxWaiting: MAX_WAITING })
  }

  get running(): Running[] {
    return [...this.#running.values()]
  }

  /** Takes a command, however often it comes: it runs once, and its result is delivered until the gateway has it. */
  accept(command: ExecuteCommand): void {
    const { memory, deliver, log } = this.#parts
    const { commandId } = command
    if (this.#isClosed || this.#running.has(commandId)) return
    const known = memory.get(commandId)
    if (known?.state === 'finished' && known.result) {
      deliver(known.result)
      return
    }
    const isRepeatable = this.#commands.get(command.command)?.repeatable === true
    const controller = new AbortController()
    const running: Running = { command, since: Date.now(), controller, progress: undefined }
    this.#running.set(commandId, running)
    const work = known && !isRepeatable ? Promise.reject(ranAlready(known.state)) : this.#run(running)
    work
      .then(
        result => this.#end(running, { ok: true, ...(result === undefined ? {} : { result }) }),
        (error: unknown) => this.#end(running, { ok: false, error: toFailure(error) }),
      )
      .catch((error: unknown) => {
        log('error', `the result of ${command.command} could not be remembered`, { commandId, error: String(error) })
      })
  }

  /** Ends a command that runs; it is reported with this error. False: there is none. */
  abort(commandId: string, error: CommandError): boolean {
    const running = this.#running.get(commandId)
    running?.controller.abort(error)
    return running !== undefined
  }

  /** Ends everything, and takes nothing more: what still comes the gateway sends again to the next connection. */
  close(error: CommandError): void {
    this.#isClosed = true
    for (const { controller } of this.#running.values()) controller.abort(error)
  }

  /** Ends what the scopes do not allow any more. */
  enforce(granted: readonly string[]): void {
    for (const { command, controller } of this.#running.values()) {
      const refusal = this.#refusal(command.command, granted)
      if (refusal) controller.abort(refusal)
    }
  }

  /** Resolves once nothing runs, or the time is over. */
  async idle(limitMs: number): Promise<void> {
    const deadline = Date.now() + limitMs
    while (this.#running.size > 0 && Date.now() < deadline) await new Promise(resolve => setTimeout(resolve, 20))
  }

  async #run(running: Running): Promise<Record<string, unknown> | undefined> {
    const { command } = running
    const { granted, local, memory } = this.#parts
    // The machine's own list first: what it does not allow is not even asked about.
    const refusal = this.#refusal(command.command, isAllowedLocally(command.command, local()) ? await granted(command.command) : [])
    if (refusal) throw refusal
    const definition = this.#commands.get(command.command)
    if (!definition) throw platformUnsupported(`This node has no command ${command.command}`)
    const params = readParams(definition.params, command.params)
    await definition.check?.()
    if (!this.#lanes.hasRoom) throw busy('The node has too much to do', BUSY_RETRY_MS)
    await memory.started(command.commandId, { isDurable: definition.repeatable !== true })
    return this.#inTime(running, definition, params)
  }

  /** Settles when the command ends or its signal aborts; its lane is free only when it has really ended. */
  async #inTime(
    { command, since, controller }: Running,
    definition: AnyCommand,
    params: object,
  ): Promise<Record<string, unknown> | undefined> {
    const { commandId, timeoutMs, originatedBy } = command
    const { signal } = controller
    const progress = (said: Progress): void => {
      const running = this.#running.get(commandId)
      if (running) running.progress = { ...said }
    }
    const abort = (): void => controller.abort(new CommandError('timeout', `${command.command} did not end within ${timeoutMs} ms`))
    const late = setTimeout(abort, Math.max(0, since + timeoutMs - Date.now()))
    try {
      return await new Promise<Record<string, unknown> | undefined>((resolve, reject) => {
        signal.throwIfAborted()
        signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true })
        this.#lanes.enter(definition.lane, signal, async () => {
          try {
            resolve(await definition.run(params as never, { commandId, signal, originatedBy, progress }))
          } catch (error) {
            reject(error instanceof Error ? error : new Error(String(error)))
          }
        })
      })
    } finally {
      clearTimeout(late)
    }
  }

  async #end({ command, since }: Running, outcome: Pick<CommandResult, 'ok' | 'result' | 'error'>): Promise<void> {
    const { memory, deliver, log } = this.#parts
    const { commandId } = command
    const result: CommandResult = { commandId, ...outcome, durationMs: Date.now() - since, protocolVersion: command.protocolVersion }
    const { error } = outcome
    log(error ? 'warn' : 'info', `${command.command}: ${error ? `${error.code}, ${error.message}` : 'done'}`, {
      commandId,
      durationMs: result.durationMs,
    })
    try {
      // A busy node is asked again under the same id.
      if (error?.code === 'busy') await memory.forget(commandId)
      else await memory.finished(result)
    } finally {
      this.#running.delete(commandId)
      deliver(result)
    }
  }

  #refusal(command: string, granted: readonly string[]): CommandError | undefined {
    if (!isAllowedLocally(command, this.#parts.local()))
      return new CommandError('not_authorized', `This machine does not allow ${command}, whatever the gateway says`, {
        details: { command, by: 'node' },
      })
    if (isGranted(command, granted)) return undefined
    return new CommandError('not_authorized', `The gateway has not granted ${command} to this node, or has revoked it`, {
      details: { command, by: 'gateway' },
    })
  }
}

const ranAlready = (state: string): CommandError =>
  state === 'delivered'
    ? new CommandError('internal_error', 'The command ran already and its result was delivered: it does not run twice')
    : new CommandError('internal_error', 'The node ended while the command ran: it may be done in part, and is not run again', {
        details: { interrupted: true },
      })
